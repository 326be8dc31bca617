// Words, numbers and elements. Names and ids are users' data: they reach the page as text and never as markup.

const get = (id) => document.getElementById(id);

function number(value, digits = 4, signed = false) {
  if (Number.isNaN(value)) return "–";
  const text = Math.abs(value).toFixed(digits);
  if (Number(text) === 0) return text;
  return (value < 0 ? "−" : signed ? "+" : "") + text;
}

function plain(value) {
  if (Number.isNaN(value)) return "missing";
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  return String(Number(value.toPrecision(5))).replace("-", "−");
}

function score(value) {
  const far = Math.abs(value);
  return Number.isFinite(value) && (far === 0 || (far >= 1e-3 && far < 1e5)) ? number(value) : plain(value);
}

function counted(amount, one, many = one + "s") {
  return `${amount.toLocaleString("en")} ${amount === 1 ? one : many}`;
}

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}
