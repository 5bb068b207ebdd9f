// ---- Trees of call paths: computing alone, no page. Nodes are numbers, the root is 0, and a parent's
// number is smaller than its children's, so one pass over the numbers goes down the tree and one back
// goes up. Nothing recurses: stacks may be of any depth.

// `ranks`: by frame, the order of siblings. `frames[0]` is what the root shows; -1: nothing.
class Tree {
  constructor(parents, frames, ranks) {
    this.size = parents.length;
    this.parents = parents;
    this.frames = frames;
    this.depths = new Int32Array(this.size);
    for (let i = 1; i < this.size; ++i) this.depths[i] = this.depths[parents[i]] + 1;
    // Children of i: order[firstChild[i]] up to order[firstChild[i + 1]].
    this.order = new Int32Array(Math.max(this.size - 1, 0));
    for (let i = 1; i < this.size; ++i) this.order[i - 1] = i;
    this.order.sort((a, b) => parents[a] - parents[b] || ranks[frames[a]] - ranks[frames[b]] || a - b);
    this.firstChild = new Int32Array(this.size + 1);
    for (let i = 1; i < this.size; ++i) ++this.firstChild[parents[i] + 1];
    for (let i = 0; i < this.size; ++i) this.firstChild[i + 1] += this.firstChild[i];
  }

  * children(node) {
    for (let i = this.firstChild[node]; i < this.firstChild[node + 1]; ++i) yield this.order[i];
  }

  isWithin(node, ancestor) {
    while (node > ancestor) node = this.parents[node];
    return node === ancestor;
  }

  // Whether no caller of a node is the same function: recursion counts once. By node.
  outermost() {
    if (this.isOutermost !== undefined) return this.isOutermost;
    this.isOutermost = new Uint8Array(this.size);
    const active = new Map();  // how often a frame is on the way from the root
    const open = [0];
    const next = [this.firstChild[0]];
    while (open.length > 0) {
      const node = open[open.length - 1];
      const position = next[next.length - 1]++;
      if (position < this.firstChild[node + 1]) {
        const child = this.order[position];
        const times = active.get(this.frames[child]) || 0;
        this.isOutermost[child] = times === 0 ? 1 : 0;
        active.set(this.frames[child], times + 1);
        open.push(child);
        next.push(this.firstChild[child]);
      } else {
        open.pop();
        next.pop();
        if (node !== 0) active.set(this.frames[node], active.get(this.frames[node]) - 1);
      }
    }
    return this.isOutermost;
  }
}

// One weight of a tree, of one recording: sums of each node with what is below it, and where it lies.
// `counts`: by node, how often it was seen.
class Weighing {
  constructor(tree, self, counts) {
    this.self = self;
    this.counts = counts;
    this.totals = Float64Array.from(self);
    for (let i = tree.size - 1; i > 0; --i) this.totals[tree.parents[i]] += this.totals[i];
    this.starts = new Float64Array(tree.size);  // from the left edge of the root, in the weight's unit
    this.maxDepth = 0;
    const cursor = new Float64Array(tree.size);
    for (const node of tree.order) {
      const parent = tree.parents[node];
      this.starts[node] = this.starts[parent] + cursor[parent];
      cursor[parent] += this.totals[node];
      if (this.totals[node] > 0 && tree.depths[node] > this.maxDepth) this.maxDepth = tree.depths[node];
    }
  }
}

// Sums by function, of each of the weighings: of the recording, and perhaps of the one before it.
function sumFunctions(tree, weighings, functions) {
  const isOutermost = tree.outermost();
  return weighings.map((weighing) => {
    const sums = {
      self: new Float64Array(functions), total: new Float64Array(functions), count: new Float64Array(functions),
    };
    for (let i = 1; i < tree.size; ++i) {
      const frame = tree.frames[i];
      sums.self[frame] += weighing.self[i];
      sums.count[frame] += weighing.counts[i];
      if (isOutermost[i]) sums.total[frame] += weighing.totals[i];
    }
    return sums;
  });
}

// Collects paths into a new tree.
class TreeMaker {
  constructor(rootFrame, sides) {
    this.parents = [0];
    this.frames = [rootFrame];
    this.sides = Array.from({length: sides}, () => ({self: [0], counts: [0]}));
    this.ids = new Map();
  }

  child(parent, frame) {
    const key = parent * 0x1000000 + frame;  // exact up to 2^29 nodes and 2^24 frames
    let id = this.ids.get(key);
    if (id === undefined) {
      id = this.parents.length;
      this.ids.set(key, id);
      this.parents.push(parent);
      this.frames.push(frame);
      for (const {self, counts} of this.sides) {
        self.push(0);
        counts.push(0);
      }
    }
    return id;
  }

  add(node, side, self, count) {
    this.sides[side].self[node] += self;
    this.sides[side].counts[node] += count;
  }

  finish(ranks) {
    const tree = new Tree(Int32Array.from(this.parents), Int32Array.from(this.frames), ranks);
    const weighings = this.sides.map(({self, counts}) => new Weighing(tree, Float64Array.from(self), Float64Array.from(counts)));
    return {tree, weighings};
  }
}

// Returns who calls a function and what it calls, over all places where it is called. A recursive
// function counts by its outermost call, so both trees are as wide as the function's total.
function sandwich(tree, weighings, frame, ranks) {
  const callers = new TreeMaker(frame, weighings.length);
  const callees = new TreeMaker(frame, weighings.length);
  const isOutermost = tree.outermost();
  const place = new Int32Array(tree.size).fill(-1);  // of nodes inside of the function: among the callees
  for (let i = 1; i < tree.size; ++i) {
    const isStart = tree.frames[i] === frame && isOutermost[i] === 1;
    if (!isStart && place[tree.parents[i]] < 0) continue;
    place[i] = isStart ? 0 : callees.child(place[tree.parents[i]], tree.frames[i]);
    weighings.forEach((weighing, side) => callees.add(place[i], side, weighing.self[i], weighing.counts[i]));
    if (!isStart) continue;
    let at = 0;
    for (let caller = tree.parents[i]; caller !== 0; caller = tree.parents[caller]) {
      at = callers.child(at, tree.frames[caller]);
    }
    weighings.forEach((weighing, side) => callers.add(at, side, weighing.totals[i], weighing.counts[i]));
  }
  return {callers: callers.finish(ranks), callees: callees.finish(ranks)};
}

// By frame whether its name matches: part of it, or a regular expression between slashes. null: the
// expression is not one.
function matchFrames(names, query) {
  const regex = /^\/(.+)\/$/.exec(query);
  let isMatch;
  if (regex !== null) {
    try {
      const compiled = new RegExp(regex[1], 'i');
      isMatch = (name) => compiled.test(name);
    } catch {
      return null;
    }
  } else {
    const lower = query.toLowerCase();
    isMatch = (name) => name.toLowerCase().includes(lower);
  }
  return Uint8Array.from(names, (name) => (isMatch(name) ? 1 : 0));
}

// Returns the sum of all matches; where a match lies inside another, it is counted once.
function matchedTotal(tree, totals, matches) {
  const inside = new Uint8Array(tree.size);
  let sum = 0;
  for (let i = 1; i < tree.size; ++i) {
    const hit = matches[tree.frames[i]];
    if (hit && !inside[tree.parents[i]]) sum += totals[i];
    inside[i] = inside[tree.parents[i]] | hit;
  }
  return sum;
}

function formatValue(value, unit) {
  const size = Math.abs(value);
  if (unit === 'ns') {
    if (size >= 1e9) return (value / 1e9).toFixed(3) + ' s';
    if (size >= 1e6) return (value / 1e6).toFixed(3) + ' ms';
    return (value / 1e3).toFixed(3) + ' us';
  }
  if (unit === 'bytes') {
    const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let power = 0;
    while (power < names.length - 1 && size >= 1024 ** (power + 1)) ++power;
    return (value / 1024 ** power).toFixed(power === 0 && Number.isInteger(value) ? 0 : 2) + ' ' + names[power];
  }
  return value.toLocaleString('en-US', {maximumFractionDigits: 2});
}

function percent(part, whole) {
  return (whole > 0 ? (100 * part / whole).toFixed(2) : '0.00') + ' %';
}
