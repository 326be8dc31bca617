// The query explorer: its state, keys and pointers, and how it begins.

const state = { index: null, set: null, a: 0, b: 1, metric: 0, shown: [], place: -1, reach: 1, all: false, held: null, asked: 0 };

// Keys and pointers

function listKey(event) {
  const page = Math.max(1, Math.floor(get("x-list").clientHeight / ROW) - 1);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  if (event.key in steps) choose(state.place + steps[event.key]).then(remember);
  else if (event.key === "Enter") get("x-query").querySelector("tr[data-document]")?.focus();
  else return;
  event.preventDefault();
}

function documentKey(event) {
  const here = event.target.closest("tr[data-document]");
  if (!here) return;
  const rows = [...here.parentElement.children];
  const place = rows.indexOf(here);
  let next = null;
  if (event.key === "ArrowDown") next = rows[place + 1];
  else if (event.key === "ArrowUp") next = rows[place - 1];
  else if (event.key === "Home") next = rows[0];
  else if (event.key === "End") next = rows[rows.length - 1];
  else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    const side = event.key === "ArrowLeft" ? "a" : "b";
    next = get(`x-ranking-${side}`).querySelector(`tr[data-document="${here.dataset.document}"]`);
  } else if (event.key === "Escape") next = get("x-list");
  else if (event.key === " ") hold(Number(here.dataset.document));
  else return;
  event.preventDefault();
  next?.focus();
}

function documentSeen(event) {
  const here = event.target.closest?.("tr[data-document]");
  if (here) pointAt(Number(here.dataset.document));
}

// The address remembers what is looked at, so that it can be sent to somebody

function remember() {
  const { set } = state;
  const words = new URLSearchParams({
    data: set.name, a: set.methods[state.a], b: set.methods[state.b], metric: state.index.metrics[state.metric],
    query: set.ids[state.shown[state.place]] ?? "",
  });
  try {
    history.replaceState(null, "", `#explore&${words}`);
  } catch {
    // a page inside another one may not
  }
}

async function recall() {
  if (!location.hash.startsWith("#explore&")) return false;
  const words = new URLSearchParams(location.hash.slice("#explore&".length));
  const set = state.index.sets.findIndex((one) => one.name === words.get("data"));
  if (set >= 0) await takeSet(set);
  const pick = (list, word, otherwise) => (list.includes(words.get(word)) ? list.indexOf(words.get(word)) : otherwise);
  get("x-a").value = state.a = pick(state.set.methods, "a", state.a);
  get("x-b").value = state.b = pick(state.set.methods, "b", state.b);
  get("x-metric").value = state.metric = pick(state.index.metrics, "metric", state.metric);
  await refresh();
  await choose(Math.max(0, state.shown.indexOf(state.set.ids.indexOf(words.get("query")))));
  get("explorer").scrollIntoView();
  return true;
}

// Beginning

function fill(select, names, chosen) {
  select.replaceChildren(...names.map((name, i) => make("option", { value: i }, name)));
  select.value = chosen;
}

async function takeSet(which) {
  state.set = await openSet(state.index.sets[which]);
  get("x-data").value = which;
  const { methods } = state.set;
  state.a = methods.length > 1 ? best(methods.length) : 0;
  state.b = state.a === 0 ? Math.min(1, methods.length - 1) : 0;
  fill(get("x-a"), methods, state.a);
  fill(get("x-b"), methods, state.b);
  const sort = get("x-sort");
  for (const option of sort.querySelectorAll(".alike")) option.remove();
  const names = state.set.alike.map((name, i) => make("option", { value: `${ALIKE}${i}`, className: "alike" }, `least alike first, by ${name}`));
  sort.append(...names);
  if (!sort.value) sort.value = "size";
}

function best(count) {
  const { set } = state;
  const means = Array.from({ length: count }, (_, method) => {
    const known = set.ids.map((_, q) => value(set, method, state.metric, q)).filter((x) => !Number.isNaN(x));
    return known.reduce((sum, x) => sum + x, 0) / known.length;
  });
  return means.indexOf(Math.max(...means));
}

function listen() {
  let waiting = false;
  const list = get("x-list");
  list.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; drawList(); });
  });
  list.addEventListener("keydown", listKey);
  list.addEventListener("click", (event) => {
    const here = event.target.closest(".row");
    if (here) choose(Number(here.dataset.place), { focus: true }).then(remember);
  });
  new ResizeObserver(drawList).observe(list);
  const change = (id, act) => get(id).addEventListener("input", () => Promise.resolve(act(get(id).value)).then(refresh).then(remember));
  change("x-data", (which) => takeSet(Number(which)));
  change("x-a", (which) => { state.a = Number(which); });
  change("x-b", (which) => { state.b = Number(which); });
  change("x-metric", (which) => { state.metric = Number(which); });
  change("x-sort", () => { state.place = -1; }); // another order is read from its beginning
  for (const id of ["x-least", "x-most", "x-text"]) change(id, () => {});
  document.querySelector(".controls").addEventListener("submit", (event) => event.preventDefault());
  const pane = get("x-query");
  pane.addEventListener("keydown", documentKey);
  pane.addEventListener("click", (event) => {
    const here = event.target.closest("tr[data-document]");
    if (here) hold(Number(here.dataset.document));
  });
  pane.addEventListener("focusin", documentSeen);
  pane.addEventListener("mouseover", documentSeen);
}

async function begin() {
  const source = get("explorer-index");
  if (!source) return;
  state.index = JSON.parse(source.textContent);
  get("explorer-app").hidden = false;
  fill(get("x-data"), state.index.sets.map((set) => set.name), 0);
  if (state.index.sets.length < 2) document.querySelector(".only-many").hidden = true;
  fill(get("x-metric"), state.index.metrics, 0);
  await takeSet(0);
  listen();
  if (!(await recall())) await refresh();
  document.documentElement.dataset.explorer = "ready";
}

begin();
