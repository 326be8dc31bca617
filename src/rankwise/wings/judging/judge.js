// One document at a time: a key is a grade, which is on the disk when the next document appears.
// Queries, documents and names reach the page as text: see make() in words.js.

const NAMES = {
  1: ["not relevant", "relevant"],
  2: ["not relevant", "relevant", "highly relevant"],
  3: ["not relevant", "related", "relevant", "highly relevant"],
  4: ["not relevant", "related", "relevant", "highly relevant", "perfect"],
};
const FIRST = 20000; // letters of a text that are shown at once
const MARKS = 3000; // highlighted words of a text
const COMMON = new Set("a an and are as at be by can do does for from has have how i in is it its many much my of on or that the this to was were what when where which who why will with you your".split(" "));
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

let judge = "", shown = null, most = 0, busy = false;

async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("rankwise judge serve does not answer; start it again, and open the address that it prints.");
  }
  const content = await response.json();
  if (!response.ok) throw new Error(content.error);
  return content;
}

// The words of a query as a pattern: other endings of up to two letters count, except where words have no spaces
function pattern(query) {
  const found = "Segmenter" in Intl
    ? [...new Intl.Segmenter(undefined, { granularity: "word" }).segment(query)].filter((one) => one.isWordLike).map((one) => one.segment)
    : query.match(/[\p{L}\p{N}\p{M}]+/gu) ?? [];
  const words = [...new Set(found.map((word) => word.toLowerCase()))].filter((word) => !COMMON.has(word));
  words.sort((one, other) => other.length - one.length);
  const escaped = (word) => word.replace(/[.*+?^()[\]{}|\\\x24/-]/g, "\\$&");
  const parts = words.map((word) => UNSPACED.test(word) ? escaped(word) : `(?<![\\p{L}\\p{N}])${escaped(word)}[\\p{L}\\p{M}]{0,2}(?![\\p{L}\\p{N}\\p{M}])`);
  return parts.length ? new RegExp(parts.join("|"), "giu") : null;
}

function highlighted(text, query) {
  const words = pattern(query.normalize()), nodes = [];
  text = text.normalize();
  let end = 0;
  for (const match of words ? text.matchAll(words) : []) {
    nodes.push(text.slice(end, match.index), make("mark", {}, match[0]));
    end = match.index + match[0].length;
    if (nodes.length > 2 * MARKS) break;
  }
  return [...nodes, text.slice(end)];
}

function showText(length) {
  const { text, asked } = shown;
  const cut = text.length > length * 1.1 ? length : text.length;
  get("text").replaceChildren(...highlighted(text.slice(0, cut), asked ?? ""));
  get("more").hidden = cut === text.length;
  get("more").replaceChildren(make("kbd", {}, "m"), ` show the other ${counted(text.length - cut, "letter")}`);
}

function show(state) {
  shown = state.document;
  get("who").hidden = true;
  get("head").hidden = false;
  get("judge").textContent = judge;
  const skipped = state.skipped ? `, ${state.skipped.toLocaleString("en")} skipped` : "";
  get("counts").textContent = `${state.judged.toLocaleString("en")} of ${counted(state.documents, "document")}${skipped}`;
  get("progress").max = state.documents;
  get("progress").value = state.judged;
  if (state.most !== most) buttons(state.most);
  get("undo").disabled = !state.undo;
  get("document").hidden = shown === null;
  get("grades").hidden = false;
  for (const button of get("buttons").querySelectorAll("[data-grade]")) {
    button.disabled = shown === null;
    button.classList.toggle("was", shown !== null && Number(button.dataset.grade) === shown.grade);
  }
  get("skip").disabled = shown === null;
  get("done").hidden = shown !== null;
  get("query").hidden = shown === null;
  if (shown === null) {
    get("left").textContent = state.skipped ? `You skipped ${counted(state.skipped, "document")}.` : "You may close this page.";
    get("again").hidden = !state.skipped;
    get("again").textContent = "Show what was skipped";
    return;
  }
  get("query").textContent = shown.asked ?? `Query ${shown.query} (its text is missing)`;
  const mine = shown.grade === undefined || shown.grade === null ? "" : ` · your grade was ${shown.grade}`;
  get("which").textContent = `Document ${shown.number} of ${shown.of} for this query · ${shown.id}${mine}`;
  get("title").hidden = !shown.title;
  get("title").replaceChildren(...highlighted(shown.title, shown.asked ?? ""));
  const lacking = shown.text === null ? "missing" : shown.text.trim() ? "" : "empty";
  get("text").classList.toggle("missing", lacking !== "");
  if (lacking) {
    get("text").textContent = `The text of this document is ${lacking}${shown.title ? "." : ": skip it."}`;
    get("more").hidden = true;
  } else {
    showText(FIRST);
  }
  window.scrollTo(0, 0);
  get("query").scrollTop = 0;
}

function buttons(highest) {
  most = highest;
  const ends = Array.from({ length: most + 1 }, (_, grade) => (grade === 0 ? "not relevant" : grade === most ? "perfect" : ""));
  const grades = (NAMES[most] ?? ends).map((name, grade) => {
    const button = make("button", { type: "button", title: `key ${grade}`, onclick: () => answer(grade) }, make("b", {}, String(grade)), name);
    button.dataset.grade = grade;
    return button;
  });
  const other = [["skip", () => answer(null)], ["undo", undo]].map(([id, onclick]) =>
    make("button", { type: "button", id, onclick }, make("kbd", {}, id[0]), make("div", {}, id)));
  get("buttons").replaceChildren(make("div", { className: "keys" }, ...grades), make("div", { className: "keys other" }, ...other));
}

// Sends one thing at a time, and says that it is saved only when the service has said so
async function send(path, body, saved) {
  if (busy) return;
  busy = true;
  get("saved").className = "";
  get("saved").textContent = "saving …";
  document.activeElement?.blur(); // else the space bar would press a button again
  try {
    show(await ask(path, { judge, ...body }));
    get("problem").textContent = "";
    get("saved").className = "saved";
    get("saved").textContent = `✓ ${saved}`;
  } catch (wrong) {
    get("saved").textContent = "";
    get("problem").textContent = `Not saved: ${wrong.message}`;
  } finally {
    busy = false;
  }
}

function answer(grade) {
  if (shown === null) return;
  send("answer", { query: shown.query, document: shown.id, grade }, grade === null ? "skipped" : `saved ${grade}`);
}

function undo() {
  if (!get("undo").disabled) send("undo", {}, "taken back");
}

async function begin(name) {
  try {
    const state = await ask(`state?judge=${encodeURIComponent(name)}`);
    judge = name;
    sessionStorage.setItem("judge", name);
    localStorage.setItem("judge", name);
    get("problem").textContent = "";
    show(state);
  } catch (wrong) {
    sessionStorage.removeItem("judge");
    get("problem").textContent = wrong.message;
    get("who").hidden = false;
  }
}

document.onkeydown = (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || !judge || event.target.tagName === "INPUT") return;
  const digit = /^[0-9]$/.test(event.key) ? event.key : /^(?:Digit|Numpad)([0-9])$/.exec(event.code)?.[1];
  const letter = /^[a-z]$/i.test(event.key) ? event.key.toLowerCase() : /^Key([A-Z])$/.exec(event.code)?.[1].toLowerCase();
  const keys = { s: () => answer(null), u: undo, m: () => get("more").hidden || showText(Infinity) };
  if (digit !== undefined && Number(digit) <= most) answer(Number(digit));
  else if (event.key === "Backspace") undo();
  else if (letter in keys) keys[letter]();
  else return;
  event.preventDefault();
};
get("who").onsubmit = (event) => { event.preventDefault(); begin(get("name").value.trim()); };
get("more").onclick = () => showText(Infinity);
get("again").onclick = () => send("again", {}, "");
get("name").value = localStorage.getItem("judge") ?? "";
if (sessionStorage.getItem("judge")) begin(sessionStorage.getItem("judge"));
else { get("who").hidden = false; get("name").focus(); }
document.documentElement.dataset.page = "ready";
