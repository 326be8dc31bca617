// The list of queries: which of them, in which order; only rows that can be seen exist.

const ROW = 48; // height of a query, in pixels; the style sheet says the same
const AHEAD = 8; // rows drawn beyond what can be seen

const ALIKE = "alike-";

function keyOf(order) {
  const set = state.set;
  if (order.startsWith(ALIKE)) return (q) => similarity(set, Number(order.slice(ALIKE.length)), q);
  return {
    size: (q) => -Math.abs(difference(q)),
    a: (q) => -difference(q),
    b: difference,
    low: (q) => value(set, state.a, state.metric, q),
    relevant: (q) => -set.relevant[q],
    few: (q) => set.relevant[q],
    documents: (q) => -set.documents[q],
    file: (q) => q,
  }[order];
}

function arrange() {
  const { set } = state;
  const text = get("x-text").value.trim().toLowerCase();
  const least = get("x-least").value === "" ? -Infinity : Number(get("x-least").value);
  const most = get("x-most").value === "" ? Infinity : Number(get("x-most").value);
  const fits = (q) => set.relevant[q] >= least && set.relevant[q] <= most && (!text || set.lower[q].includes(text));
  const key = keyOf(get("x-sort").value);
  const kept = [];
  for (let q = 0; q < set.ids.length; q++) {
    if (!fits(q)) continue;
    const worth = key(q);
    kept.push([Number.isNaN(worth) ? Infinity : worth, q]); // queries that are skipped go last
  }
  kept.sort((one, other) => (one[0] === other[0] ? one[1] - other[1] : one[0] < other[0] ? -1 : 1));
  state.shown = kept.map((pair) => pair[1]);
  state.reach = state.shown.reduce((far, q) => Math.max(far, Math.abs(difference(q)) || 0), 0) || 1;
  get("x-count").textContent = countText(set);
}

function countText(set) {
  const shown = state.shown.length;
  let text = shown === set.ids.length ? counted(shown, "query", "queries")
    : `${shown.toLocaleString("en")} of ${counted(set.ids.length, "query", "queries")}`;
  if (set.ids.length < set.queries) {
    text += `. This page holds ${set.ids.length.toLocaleString("en")} of the ${counted(set.queries, "query", "queries")}`;
    text += "; tables and figures are about all of them";
  }
  return `${text}.`;
}

function drawList() {
  const list = get("x-list");
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - AHEAD);
  const last = Math.min(state.shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + AHEAD);
  const space = make("div", { className: "space", role: "presentation" });
  space.style.height = `${state.shown.length * ROW}px`;
  for (let place = first; place < last; place++) space.append(row(place));
  list.replaceChildren(space);
  if (!state.shown.length) list.replaceChildren(make("p", { className: "none" }, "No query fits."));
  if (state.place >= first && state.place < last) list.setAttribute("aria-activedescendant", `x-row-${state.place}`);
  else list.removeAttribute("aria-activedescendant");
}

function row(place) {
  const { set } = state;
  const query = state.shown[place];
  const apart = difference(query);
  const chosen = place === state.place;
  const bar = make("span", { className: "bar", "aria-hidden": "true" });
  const fill = make("i", { className: apart > 0 ? "a" : "b" });
  fill.style.width = `${(50 * Math.abs(apart || 0)) / state.reach}%`;
  bar.append(fill);
  const order = get("x-sort").value;
  const measure = order.startsWith(ALIKE) ? Number(order.slice(ALIKE.length)) : -1;
  const also = measure < 0 ? `${set.relevant[query]} relevant` : `${set.alike[measure]} ${number(similarity(set, measure, query), 3)}`;
  const about = `${counted(set.documents[query], "document")}, ${also}`;
  const element = make("div", {
    id: `x-row-${place}`, className: chosen ? "row chosen" : "row", role: "option", "aria-selected": String(chosen),
    "aria-posinset": place + 1, "aria-setsize": state.shown.length,
  },
    make("span", { className: "name" }, set.ids[query]),
    make("span", { className: "apart" }, number(apart, 3, true)),
    make("span", { className: "about" }, about),
    bar,
  );
  element.style.top = `${place * ROW}px`;
  element.dataset.place = place;
  return element;
}

async function choose(place, { focus = false } = {}) {
  if (!state.shown.length) {
    state.place = -1;
    state.asked++; // what is still being unpacked is no longer wanted
    drawList();
    get("x-query").replaceChildren();
    return;
  }
  state.place = Math.max(0, Math.min(place, state.shown.length - 1));
  const list = get("x-list");
  const top = state.place * ROW;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
  drawList();
  if (focus) list.focus();
  state.all = false;
  return showQuery();
}

// A model has the same colour here as in the figures
function paint() {
  const { colours } = state.set;
  get("explorer-app").style.setProperty("--a", `var(--${colours[state.a]})`);
  get("explorer-app").style.setProperty("--b", `var(--${colours[state.b]})`);
}

function refresh() {
  paint();
  const before = state.shown[state.place];
  arrange();
  const list = get("x-list");
  list.scrollTop = 0;
  return choose(Math.max(0, state.shown.indexOf(before)));
}
