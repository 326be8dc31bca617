// The data: packs in the page, gzip in base64 of a JSON header and float32 numbers behind it, unpacked when needed.

async function unpack(key) {
  const letters = atob(get(key).textContent);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const whole = await new Response(stream).arrayBuffer();
  const length = new DataView(whole).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(whole, 4, length)));
  return { header, numbers: new Float32Array(whole, 4 + length) };
}

async function openSet(described) {
  if (described.opened) return described;
  const { header, numbers } = await unpack(described.key);
  const starts = [0];
  for (const documents of header.documents) starts.push(starts[starts.length - 1] + documents);
  const lower = header.ids.map((id) => id.toLowerCase());
  return Object.assign(described, header, { values: numbers, starts, lower, packs: new Map(), opened: true });
}

function value(set, method, metric, query) {
  return set.values[(method * state.index.metrics.length + metric) * set.ids.length + query];
}

// How alike two methods rank a query, which lies behind the values: a row for each pair (0, 1), (0, 2), …
function similarity(set, measure, query) {
  const count = set.methods.length;
  const [one, other] = [Math.min(state.a, state.b), Math.max(state.a, state.b)];
  if (one === other) return 1;
  const pair = one * count - (one * (one + 1)) / 2 + other - one - 1;
  const before = count * state.index.metrics.length + measure * ((count * (count - 1)) / 2);
  return set.values[(before + pair) * set.ids.length + query];
}

function difference(query) {
  return value(state.set, state.a, state.metric, query) - value(state.set, state.b, state.metric, query);
}

async function documentsOf(set, query) {
  let chunk = set.chunks.length - 1;
  while (set.chunks[chunk] > query) chunk--;
  if (!set.packs.has(chunk)) set.packs.set(chunk, unpack(`${set.key}-${chunk}`));
  const { header, numbers } = await set.packs.get(chunk);
  const total = header.labels.length;
  const first = set.starts[query] - set.starts[set.chunks[chunk]];
  return Array.from({ length: set.documents[query] }, (_, i) => {
    const row = first + i;
    const { width, methods } = set;
    const begin = methods.length * total + row * width;
    const added = (method) => begin + (method + 1) * total * width;
    return {
      name: header.ids && header.ids[row] !== null ? header.ids[row] : `document ${header.numbers[row] + 1}`,
      label: header.labels[row],
      scores: set.methods.map((_, method) => numbers[method * total + row]),
      features: width ? numbers.subarray(begin, begin + width) : null,
      added: set.explained ? methods.map((_, method) => numbers.subarray(added(method), added(method) + width)) : null,
    };
  });
}

// Documents that a method did not retrieve have no score, and no rank
function ranked(documents, method) {
  const worth = (i) => documents[i].scores[method];
  const order = documents.map((_, i) => i).filter((i) => !Number.isNaN(worth(i)));
  return order.sort((i, j) => (worth(j) > worth(i) ? 1 : worth(j) < worth(i) ? -1 : i - j));
}
