// Words are searched, the first run and the learned ranking stand side by side, and two documents are compared.
// Texts, ids and names reach the page as text: see make() in words.js.

const K = 10;
const SAID = { bm25: "BM25" };
let about = null, answer = null, held = null, asked = 0, chosen = 0;

async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, options);
  const content = await response.json();
  if (!response.ok) throw new Error(content.error.message);
  return content;
}

const called = (run) => SAID[run] ?? run;

// Every other piece, from the second on, is a word of the query
function marked(pieces) {
  return pieces.map((text, number) => (number % 2 ? make("mark", {}, text) : text));
}

async function search(query) {
  const number = ++asked;
  get("problem").textContent = "";
  close();
  if (!query.trim()) return;
  try {
    const found = await ask("search", { query, k: K });
    if (number !== asked) return; // a later search has been asked
    answer = found;
    document.title = `${query} – Search`;
    history.replaceState(null, "", `#${new URLSearchParams({ q: query })}`);
    show();
  } catch (wrong) {
    if (number === asked) get("problem").textContent = wrong.message;
  }
}

function show() {
  const run = answer.runs[0], all = answer.documents;
  const learned = all.filter((one) => one.rank <= K);
  const before = all.filter((one) => one.ranks[run] && one.ranks[run] <= K).sort((one, other) => one.ranks[run] - other.ranks[run]);
  const hint = "On the right, the rank in the other column. Choose a document to see why it is where it is.";
  get("found").textContent = learned.length ? `${counted(answer.candidates, "candidate")}. ${hint}` : "No document has these words.";
  get("columns").replaceChildren(
    column("before", called(run), "", before, (one) => [one.ranks[run], one.rank]),
    column("learned", "Learned ranking", about.ranker, learned, (one) => [one.rank, one.ranks[run]]));
  get("columns").hidden = !learned.length;
}

// Documents with their rank here and there; an arrow where the learned ranking moved them
function column(side, title, more, documents, ranks) {
  const there = side === "before" ? "learned ranking" : called(answer.runs[0]);
  const items = documents.map((one) => {
    const [rank, other] = ranks(one);
    const by = other ? (side === "before" ? rank - other : other - rank) : 0;
    const arrow = by > 0 ? "▲" : by < 0 ? "▼" : other ? "" : "new";
    const said = other ? `rank ${other} in ${there}` : `not in ${there}`;
    const moved = make("span", { className: `moved ${by > 0 ? "up" : by < 0 ? "down" : ""}`, title: said },
      make("span", { "aria-hidden": "true" }, other ? `${arrow} ${other}` : arrow), make("span", { className: "quiet" }, said));
    const id = one.title.length ? [make("span", { className: "id" }, one.document)] : [];
    const name = one.title.length ? marked(one.title) : [one.document];
    const item = make("li", { onclick: () => choose(one) }, make("span", { className: "rank" }, String(rank)),
      make("div", { className: "document" }, make("button", { className: "title", type: "button", dir: "auto" }, ...name), ...id,
        make("p", { className: "passage", dir: "auto" }, ...marked(one.passage))), moved);
    item.dataset.document = one.document;
    item.onmouseenter = () => same(one.document);
    item.querySelector("button").onfocus = item.onmouseenter;
    return item;
  });
  const list = make("ol", {}, ...items);
  list.onmouseleave = () => same(null);
  list.onkeydown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const next = step && items[items.indexOf(event.target.closest("li")) + step];
    if (next) { event.preventDefault(); next.querySelector("button").focus(); }
  };
  const heading = make("h2", {}, title, ...(more ? [" ", make("small", {}, more)] : []));
  return make("section", { className: side, id: side }, heading, list);
}

// The same document in both columns
function same(id) {
  for (const row of get("columns").querySelectorAll("li")) row.classList.toggle("same", row.dataset.document === id);
}

// The first choice is compared with its neighbour, the next one with the first; the same one again ends it
async function choose(one) {
  const first = held;
  if (first && first.document === one.document) return close();
  const neighbour = answer.documents.find((other) => other.rank === one.rank + 1)
    ?? answer.documents.filter((other) => other.rank < one.rank).at(-1);
  const other = first ?? neighbour;
  hold(first ? [one, first] : [one]);
  held = first ? null : one;
  if (!other) return;
  const number = ++chosen;
  try {
    const why = await ask("why", { query: answer.query, document: one.document, other: other.document });
    if (number === chosen) explain(why, !first);
  } catch (wrong) {
    if (number === chosen) get("problem").textContent = wrong.message;
  }
}

function explain(why, more) {
  const widest = Math.max(...why.reasons.map((one) => Math.abs(one.adds)), 1e-12);
  const lines = why.reasons.map((one) => {
    return make("tr", {}, make("td", {}, bar(one.adds / widest)), make("td", {}, number(one.adds, 3, true)),
      make("td", {}, `${called(one.of)}: `, make("span", { className: "value" }, one.text)));
  });
  lines.push(make("tr", {}, make("td"), make("td", {}, number(why.rest, 3, true)), make("td", { className: "value" }, "all else")));
  const next = more ? " Choose another document to compare with the first." : "";
  get("why").replaceChildren(
    make("button", { id: "close", type: "button", "aria-label": "close", onclick: close }, "×"),
    make("h3", {}, "Why is ", make("span", { className: "id" }, why.above), " above ", make("span", { className: "id" }, why.below), "?"),
    make("p", {}, why.sentence + next), make("table", {}, make("tbody", {}, ...lines)));
  get("why").title = why.notes.join(" ");
  get("why").hidden = false;
}

function bar(share) {
  const filled = make("i", { className: share < 0 ? "b" : "a" });
  filled.style.width = `${50 * Math.abs(share)}%`;
  filled.style.left = `${share < 0 ? 50 - 50 * Math.abs(share) : 50}%`;
  return make("div", { className: "bar", "aria-hidden": "true" }, filled);
}

function hold(documents) {
  const ids = documents.map((one) => one.document);
  for (const row of get("columns").querySelectorAll("li")) {
    row.classList.toggle("held", ids.includes(row.dataset.document));
    row.querySelector("button").setAttribute("aria-pressed", ids.includes(row.dataset.document));
  }
}

function close() {
  held = null;
  chosen += 1; // an answer that is on its way is not shown
  hold([]);
  get("why").hidden = true;
}

async function begin() {
  const listed = await ask("models");
  about = listed.models.find((model) => model.name === listed.production);
  get("about").textContent = `${about.name}: ${counted(about.search.documents, "document")}`;
  get("form").onsubmit = (event) => { event.preventDefault(); search(get("query").value); };
  document.onkeydown = (event) => {
    if (event.key === "Escape") close();
    if (event.key === "/" && event.target !== get("query")) { event.preventDefault(); get("query").select(); }
  };
  window.onhashchange = () => {
    get("query").value = new URLSearchParams(location.hash.slice(1)).get("q") ?? "";
    search(get("query").value);
  };
  if (location.hash) await window.onhashchange();
  document.documentElement.dataset.page = "ready";
}

begin();
