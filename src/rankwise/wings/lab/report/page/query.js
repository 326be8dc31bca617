// The chosen query: its metrics, both rankings, and one document of them with its features.

const FEW = 50; // documents of a ranking that are shown at first
const MISSED = 20; // documents that a ranking lacks, shown at first
const GRADES = 4; // colours of labels above 0

async function showQuery() {
  const asked = ++state.asked;
  const { set } = state;
  const query = state.shown[state.place];
  const documents = await documentsOf(set, query);
  if (asked !== state.asked) return; // another one was chosen meanwhile
  const orders = [state.a, state.b].map((method) => ranked(documents, method));
  const ranks = orders.map((order) => order.reduce((all, d, rank) => all.set(d, rank + 1), new Map()));
  const longest = Math.max(...orders.map((order) => order.length));
  const few = state.all ? longest : Math.min(FEW, longest);
  const tables = ["a", "b"].map((side, i) => make("div", {},
    ranking(side, i, documents, orders[i].slice(0, few), ranks[1 - i]), ...missed(documents, ranks[i])));
  const parts = [
    make("h3", {}, "Query ", make("span", { className: "id" }, set.ids[query])),
    make("p", { className: "about" },
      `${counted(documents.length, "document")}, ${set.relevant[query]} relevant${state.index.trials > 1 ? "; first trial" : ""}.`),
    metricsTable(query),
    make("div", { className: "rankings" }, ...tables),
  ];
  if (few < longest) {
    parts.push(make("button", { type: "button", className: "more", onclick: showAll }, `Show all ${longest}`));
  }
  const features = make("section", { className: "features", id: "x-features", "aria-label": "The document" });
  const held = set.explained ? " Click one, or press Space, to hold others against it." : "";
  const seen = set.width ? "its features" : "where both rankings have it";
  features.append(make("p", { className: "hint" }, `Point at a document, or reach it with the keyboard, to see ${seen}.${held}`));
  get("x-query").replaceChildren(...parts, features);
  state.held = null;
  get("x-query").documents = documents;
  get("x-query").ranks = ranks;
}

function showAll() {
  state.all = true;
  showQuery();
}

function metricsTable(query) {
  const { set, index } = state;
  const head = make("tr", {}, make("th", { scope: "col" }, "metric"), ...["a", "b"].map((side, i) =>
    make("th", { scope: "col" }, key(side), ` ${set.methods[i ? state.b : state.a]}`)),
    make("th", { scope: "col" }, "A − B"));
  const rows = index.metrics.map((name, metric) => {
    const one = value(set, state.a, metric, query);
    const other = value(set, state.b, metric, query);
    const better = one > other ? "a" : other > one ? "b" : "";
    return make("tr", { className: metric === state.metric ? "main" : "" },
      make("th", { scope: "row" }, name),
      make("td", { className: better === "a" ? "best" : "" }, number(one)),
      make("td", { className: better === "b" ? "best" : "" }, number(other)),
      make("td", {}, number(one - other, 4, true)));
  });
  return make("table", { className: "values" }, make("thead", {}, head), make("tbody", {}, ...rows));
}

function key(side) {
  return make("b", { className: `key ${side}` }, side.toUpperCase());
}

function ranking(side, which, documents, order, others) {
  const { set } = state;
  const method = which ? state.b : state.a;
  const head = ["", "label", "document", "score", `in ${which ? "A" : "B"}`];
  const rows = order.map((d, rank) => {
    const one = documents[d];
    const there = others.get(d);
    const moved = there === undefined ? 0 : there - rank - 1;
    const element = make("tr", { tabIndex: rank || which ? -1 : 0 },
      make("td", { className: "rank" }, String(rank + 1)),
      make("td", {}, chip(one.label)),
      make("td", { className: "document", title: one.name }, one.name),
      make("td", { className: "score" }, score(one.scores[method])),
      make("td", { className: "moved" }, there === undefined ? "–" : `${there}`, make("span", { className: "arrow", "aria-hidden": "true" },
        moved > 0 ? " ▲" : moved < 0 ? " ▼" : "  ")));
    element.dataset.document = d;
    return element;
  });
  return make("table", { className: "ranking", id: `x-ranking-${side}` },
    make("caption", {}, key(side), ` ${set.methods[method]}`),
    make("thead", {}, make("tr", {}, ...head.map((text, i) =>
      i ? make("th", { scope: "col" }, text) : make("th", { scope: "col" }, make("span", { className: "quiet" }, "rank"))))),
    make("tbody", {}, ...rows));
}

// Relevant documents that a ranking lacks
function missed(documents, ranks) {
  const lacking = documents.map((_, d) => d).filter((d) => documents[d].label > 0 && !ranks.has(d));
  if (!lacking.length) return [];
  lacking.sort((i, j) => documents[j].label - documents[i].label || i - j);
  const shown = lacking.slice(0, state.all ? lacking.length : MISSED);
  const more = lacking.length - shown.length;
  return [make("p", { className: "missed" }, `Relevant and not retrieved (${lacking.length}): `,
    ...shown.flatMap((d) => [make("span", { className: "id" }, documents[d].name), " ", chip(documents[d].label), " "]),
    more ? `and ${more} more` : "")];
}

function chip(label) {
  if (label === null) return make("span", { className: "grade unjudged", title: "not judged" }, "–");
  const top = state.set.highest || 1;
  const grade = label > 0 ? Math.max(1, Math.round((GRADES * label) / top)) : 0;
  return make("span", { className: `grade g${grade}` }, plain(label));
}

// One document, or the difference of two: in both rankings, with its features and what they add to the scores

function hold(d) {
  if (!state.set.explained) return;
  state.held = state.held === d ? null : d;
  for (const element of get("x-query").querySelectorAll("tr[data-document]")) {
    element.classList.toggle("held", Number(element.dataset.document) === state.held);
  }
  pointAt(d);
}

function pointAt(d) {
  const pane = get("x-query");
  for (const element of pane.querySelectorAll("tr[data-document]")) {
    element.classList.toggle("same", Number(element.dataset.document) === d);
  }
  const one = pane.documents[d];
  const other = state.held === null || state.held === d ? null : pane.documents[state.held];
  const place = (side, rank) => (rank === undefined ? `not in ${side}` : `rank ${rank} in ${side}`);
  const places = ["A", "B"].map((side, i) => place(side, pane.ranks[i].get(d))).join(", ");
  const title = make("h4", {}, make("span", { className: "id" }, one.name), " ", chip(one.label),
    make("span", { className: "about" }, ` ${places}`));
  if (other) title.append(make("span", { className: "about" }, ", held against "), make("span", { className: "id" }, other.name));
  const known = one.features !== null && one.features.some((x) => !Number.isNaN(x));
  const added = addedTo(one, other);
  const lacking = state.set.width ? [make("p", { className: "hint" }, "This page holds no features of it.")] : [];
  const list = known ? [featureList(pane.documents, one, added)] : lacking;
  get("x-features").replaceChildren(title, ...aboutAdded(one, other, added), ...list);
}

// What each feature adds to the score in A and in B, less what it adds to that of the other document; null if unknown
function addedTo(one, other) {
  if (!one.added) return null;
  const sides = [state.a, state.b].map((method) => Array.from(one.added[method], (x, i) => x - (other ? other.added[method][i] : 0)));
  return sides.some((side) => side.some((x) => !Number.isNaN(x))) ? sides : null;
}

function aboutAdded(one, other, added) {
  if (!added) return [];
  const sums = [state.a, state.b].map((method, i) => {
    const apart = one.scores[method] - (other ? other.scores[method] : 0);
    return make("span", {}, key(i ? "b" : "a"), ` ${number(apart, 4, Boolean(other))} `);
  });
  const text = other ? "What features add to the difference of the scores: " : "What features add to the scores, from where all start: ";
  return [make("p", { className: "about added" }, text, ...sums, "(the largest first)")];
}

function featureList(documents, one, added) {
  const names = state.index.features;
  const size = (i) => (added ? Math.max(...added.map((side) => Math.abs(side[i]) || 0)) : 0);
  const order = Array.from(one.features, (_, i) => i).sort((i, j) => size(j) - size(i) || i - j);
  const items = order.map((i) => {
    const x = one.features[i];
    let low = Infinity;
    let high = -Infinity;
    for (const other of documents) {
      if (other.features[i] < low) low = other.features[i];
      if (other.features[i] > high) high = other.features[i];
    }
    const scale = make("span", { className: "scale", "aria-hidden": "true" });
    if (high > low && Number.isFinite(x)) {
      const mark = make("i");
      mark.style.left = `${(100 * (x - low)) / (high - low)}%`;
      scale.append(mark);
    }
    const adds = added ? added.map((side, k) => make("dd", { className: `adds ${k ? "b" : "a"}` }, number(side[i], 4, true))) : [];
    return make("div", {}, make("dt", { title: names[i] || "" }, names[i] || `feature ${i + 1}`), make("dd", {}, plain(x)), scale, ...adds);
  });
  return make("dl", { className: added ? "with-added" : "" }, ...items);
}
