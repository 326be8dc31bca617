// A query's documents ranked by two models side by side, and what each feature adds to the scores of one of them.
// Everything that comes from models or queries reaches the page as text: see make() in words.js.

const MOST = 15; // features of a document that are shown by themselves
const SIDES = ["a", "b"];
let models = [];

async function ask(path, body) {
  const response = await fetch(path, body === undefined ? {} : { method: "POST", body: JSON.stringify(body) });
  const content = await response.json();
  if (!response.ok) throw new Error(content.error.message);
  return content;
}

function key(side) {
  return make("b", { className: `key ${side}` }, side.toUpperCase());
}

// Each model is asked about its own features alone: the two may have been trained on different ones
function forModel(query, model) {
  if (!model.features) return query;
  const names = new Set(model.features);
  if (query.documents) {
    const picked = (document) => Object.fromEntries(Object.entries(document).filter(([name]) => names.has(name)));
    return { ...query, documents: query.documents.map(picked) };
  }
  if (!query.features) return query;
  const kept = query.features.map((name, j) => (names.has(name) ? j : -1)).filter((j) => j >= 0);
  return { ...query, features: kept.map((j) => query.features[j]), rows: query.rows.map((row) => kept.map((j) => row[j])) };
}

async function rank() {
  get("problem").textContent = "";
  get("result").replaceChildren();
  try {
    const query = JSON.parse(get("query").value);
    const chosen = SIDES.map((side) => models[get(side).selectedIndex]);
    const asked = chosen.map((model) => ask(`models/${encodeURIComponent(model.name)}/explain`, forModel(query, model)));
    show(chosen, await Promise.all(asked));
  } catch (wrong) {
    get("problem").textContent = wrong.message;
  }
}

function show(chosen, answers) {
  const places = answers.map((answer) => new Map(answer.documents.map((one) => [one.document, one])));
  const judged = answers[0].documents.some((one) => one.label !== null);
  const why = make("section", { className: "why", id: "why", "aria-live": "polite" });
  const point = (id) => {
    for (const row of get("result").querySelectorAll("tr[data-document]")) row.classList.toggle("same", row.dataset.document === id);
    why.replaceChildren(...explained(id, places.map((all) => all.get(id)), answers, chosen));
  };
  const tables = SIDES.map((side, i) => ranking(side, chosen[i], answers[i], places[1 - i], judged, point));
  get("result").replaceChildren(make("div", { className: "rankings" }, ...tables), why);
  if (answers[0].documents.length) point(answers[0].documents[0].document);
}

function ranking(side, model, answer, others, judged, point) {
  const rows = answer.documents.map((one) => {
    const there = others.get(one.document).rank;
    const arrow = there > one.rank ? " ▲" : there < one.rank ? " ▼" : "  ";
    const row = make("tr", { tabIndex: 0, onmouseenter: () => point(one.document), onfocus: () => point(one.document) },
      make("td", { className: "rank" }, String(one.rank)),
      make("td", {}, one.label === null ? (judged ? "–" : "") : plain(one.label)),
      make("td", { className: "document", title: one.document }, one.document),
      make("td", { className: "score" }, score(one.score)),
      make("td", { className: "moved" }, String(there), make("span", { className: "arrow", "aria-hidden": "true" }, arrow)));
    row.dataset.document = one.document;
    return row;
  });
  const head = ["rank", judged ? "label" : "", "document", "score", `in ${side === "a" ? "B" : "A"}`];
  return make("table", { className: "ranking", id: `ranking-${side}` },
    make("caption", {}, key(side), ` ${model.name} `, make("span", { className: "about" }, model.ranker)),
    make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text === "rank" ? "" : text)))),
    make("tbody", {}, ...rows));
}

// What each feature adds to one document's score, by both models; the features that add least are one row
function explained(id, both, answers, chosen) {
  const added = both.map((one) => new Map(one.contributions.map((part) => [part.feature, part])));
  const names = [...new Set(added.flatMap((parts) => [...parts.keys()]))];
  const adds = (i, name) => added[i].get(name)?.contribution ?? 0;
  const size = (name) => Math.max(...SIDES.map((_, i) => Math.abs(adds(i, name))));
  names.sort((one, other) => size(other) - size(one));
  const shown = names.slice(0, MOST), rest = names.slice(MOST), widest = shown.length ? size(shown[0]) || 1 : 1;
  const line = (title, value, numbers, bars) => make("tr", {}, make("th", { scope: "row" }, title), make("td", {}, value),
    ...SIDES.flatMap((side, i) => [make("td", {}, numbers[i]), make("td", {}, bars ? bar(side, adds(i, title) / widest) : "")]));
  const value = (name) => (added[0].get(name) ?? added[1].get(name)).value ?? "missing";
  const signed = (name) => SIDES.map((_, i) => (added[i].has(name) ? number(adds(i, name), 4, true) : "–"));
  const rows = [line("start", "", answers.map((answer) => score(answer.start)), false),
    ...shown.map((name) => line(name, value(name), signed(name), true))];
  if (rest.length) {
    const sums = SIDES.map((_, i) => number(rest.reduce((sum, name) => sum + adds(i, name), 0), 4, true));
    rows.push(line(counted(rest.length, "other feature"), "", sums, false));
  }
  rows.push(line("score", "", both.map((one) => score(one.score)), false));
  const places = SIDES.map((side, i) => `rank ${both[i].rank} in ${side.toUpperCase()}`).join(", ");
  const heads = SIDES.flatMap((side, i) => [make("th", { scope: "col" }, key(side), ` ${chosen[i].name} adds`), make("th", {})]);
  return [make("h3", {}, "Why ", make("span", { className: "id" }, id), ` is ${places}`),
    make("p", { className: "about" }, `Contributions (A: ${answers[0].method}; B: ${answers[1].method}) add up to the scores.`),
    make("table", { className: "values" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "feature"),
      make("th", { scope: "col" }, "value"), ...heads)), make("tbody", {}, ...rows))];
}

function bar(side, share) {
  const filled = make("i", { className: side });
  filled.style.width = `${50 * Math.abs(share)}%`;
  filled.style.left = `${share < 0 ? 50 - 50 * Math.abs(share) : 50}%`;
  return make("div", { className: "bar", "aria-hidden": "true" }, filled);
}

async function example() {
  get("query").value = JSON.stringify(await ask(`examples/${get("examples").selectedIndex}`));
  await rank();
}

async function begin() {
  const [listed, offered] = await Promise.all([ask("models"), ask("examples")]);
  models = listed.models;
  for (const side of SIDES) {
    get(side).append(...models.map((model) => make("option", {}, model.name)));
    get(side).onchange = () => get("query").value && rank();
  }
  get("a").selectedIndex = models.findIndex((model) => model.name === listed.production);
  get("b").selectedIndex = models.length > 1 ? Number(get("a").selectedIndex === 0) : 0;
  get("form").onsubmit = (event) => { event.preventDefault(); rank(); };
  get("file").onchange = async () => { get("query").value = await get("file").files[0].text(); await rank(); };
  get("examples").append(...offered.queries.map((id) => make("option", {}, `query ${id}`)));
  get("examples").onchange = example;
  get("of-examples").hidden = !offered.queries.length;
  if (offered.queries.length) await example();
  document.documentElement.dataset.page = "ready";
}

begin();
