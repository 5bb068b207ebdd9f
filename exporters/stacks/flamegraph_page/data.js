// ---- What the page has, and how it looks.
const $ = (id) => document.getElementById(id);
const data = JSON.parse($('data').textContent);
const before = data.before || null;

// By FrameKind, as C++ numbers them.
const KINDS = [
  {name: 'operator', hue: 22}, {name: 'autograd', hue: 48}, {name: 'annotation', hue: 70}, {name: 'CUDA call', hue: 345},
  {name: 'Python', hue: 212}, {name: 'module', hue: 178}, {name: 'GPU', hue: 120}, {name: 'C and C++', hue: 265}, {name: 'system call', hue: 305},
];

const state = {
  weight: data.first,  // an index into data.weights
  view: 'graph',       // or 'functions'
  focus: -1,           // the frame in the sandwich
  query: '',
  icicle: false,
  dark: false,
  side: 'after',       // of a comparison: whose widths
  by: 'total',         // which change colours
  scale: 'share',      // how the other recording is made comparable
  sort: {key: before === null ? 'self' : 'totalChange', isDown: true},
};

const look = {names: data.frames, matches: null, isDark: false, color: colorOf};
const nodeCount = data.nodes.length / 3 + 1;

function column(offset, type) {
  const values = new type(nodeCount);
  for (let i = 1; i < nodeCount; ++i) values[i] = data.nodes[3 * (i - 1) + offset];
  return values;
}

function withRoot(list) {
  const values = new Float64Array(nodeCount);
  values.set(list, 1);
  return values;
}

// Siblings and rows stand in the order of their names.
const ranks = new Int32Array(data.frames.length);
Array.from(data.frames.keys())
    .sort((a, b) => (data.frames[a] < data.frames[b] ? -1 : data.frames[a] > data.frames[b] ? 1 : a - b))
    .forEach((frame, rank) => { ranks[frame] = rank; });

const frames = column(1, Int32Array);
frames[0] = -1;
const tree = new Tree(column(0, Int32Array), frames, ranks);
const counts = [column(2, Float64Array), ...(before === null ? [] : [withRoot(before.counts)])];
const weighingsOf = [];  // by weight: of the recording, and of the one before it

function weighings() {
  const known = weighingsOf[state.weight];
  if (known !== undefined) return known;
  const lists = before === null ? [data.values[state.weight]] : [data.values[state.weight], before.values[state.weight]];
  return (weighingsOf[state.weight] = lists.map((list, i) => new Weighing(tree, withRoot(list), counts[i])));
}

// Functions of Python and nn.Modules are read where rows begin, those of C in samples: how often they were called is not known.
function hasCount(frame) {
  return frame >= 0 && ![4, 5, 7, 8].includes(data.kinds[frame]);
}

// By recording and frame: whether anything was seen in it.
const isSeen = counts.map((own) => {
  const below = Float64Array.from(own);
  for (let i = nodeCount - 1; i > 0; --i) below[tree.parents[i]] += below[i];
  const seen = new Uint8Array(data.frames.length);
  for (let i = 1; i < nodeCount; ++i) seen[frames[i]] |= below[i] > 0 ? 1 : 0;
  return seen;
});

const side = () => (state.side === 'before' ? 1 : 0);
const unit = () => data.weights[state.weight].unit;
const format = (value) => formatValue(value, unit());
const all = () => weighings()[side()].totals[0];

// By what a figure of the recording before is multiplied, so that it can be compared.
function scale() {
  if (state.scale === 'step') return data.steps / before.steps;
  if (state.scale === 'none') return 1;
  const [after, earlier] = weighings().map((weighing) => weighing.totals[0]);
  return earlier > 0 ? after / earlier : 1;
}

function change(after, earlier) {
  return after - earlier * scale();
}

function signed(value) {
  const perStep = state.scale === 'step' ? value / data.steps : value;
  const text = (perStep > 0 ? '+' : '') + format(perStep) + (state.scale === 'step' ? ' a step' : '');
  const whole = weighings()[0].totals[0];
  return whole > 0 ? `${text} (${value > 0 ? '+' : ''}${(100 * value / whole).toFixed(2)} %)` : text;
}

// The largest change in a tree: the strongest colour.
function largestChange(graph) {
  const key = [state.weight, state.by, state.scale].join();
  if (graph.largest !== undefined && graph.largest.key === key && graph.largest.tree === graph.tree) return graph.largest.value;
  const field = state.by === 'self' ? 'self' : 'totals';
  const factor = scale();
  let value = 0;
  for (let i = 1; i < graph.tree.size; ++i) {
    value = Math.max(value, Math.abs(graph.weighings[0][field][i] - graph.weighings[1][field][i] * factor));
  }
  graph.largest = {key, tree: graph.tree, value};
  return value;
}

function changeColor(graph, node) {
  const field = state.by === 'self' ? 'self' : 'totals';
  const difference = change(graph.weighings[0][field][node], graph.weighings[1][field][node]);
  const largest = largestChange(graph);
  const strength = largest > 0 ? Math.min(Math.sqrt(Math.abs(difference) / largest), 1) : 0;
  if (strength < 0.03) return state.dark ? 'hsl(0 0% 32%)' : 'hsl(0 0% 86%)';
  const light = state.dark ? 28 + 22 * strength : 92 - 32 * strength;
  return `hsl(${difference > 0 ? 4 : 215} ${30 + 55 * strength}% ${light}%)`;
}

// Equal names have equal colours; frames of a kind are of one family.
function colorOf(graph, node) {
  const frame = graph.tree.frames[node];
  if (before !== null) return changeColor(graph, node);
  if (frame < 0) return state.dark ? 'hsl(0 0% 32%)' : 'hsl(0 0% 84%)';
  const name = data.frames[frame];
  let hash = 0;
  for (let i = 0; i < Math.min(name.length, 256); ++i) hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
  const spread = (hash >>> 8) % 20 - 10;
  const light = state.dark ? 28 + hash % 10 : 68 + hash % 12;
  return `hsl(${KINDS[data.kinds[frame]].hue + spread} ${state.dark ? 42 : 74}% ${light}%)`;
}
