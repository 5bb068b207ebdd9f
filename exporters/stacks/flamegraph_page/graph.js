// ---- One graph on the page: draws a tree, zooms, finds what is under the mouse.
const ROW = 18;  // CSS pixels
const MIN_WIDTH = 0.5;  // narrower frames are not drawn
const MIN_TEXT_WIDTH = 24;

// `view`: an element that scrolls, with an element in it that has the canvas. `look`: what the page
// knows: names, colour(graph, node), matches by frame or null, isDark. `isIcicle()`: the root on top.
class Graph {
  constructor(view, look, isIcicle) {
    this.view = view;
    this.spacer = view.firstElementChild;
    this.canvas = this.spacer.firstElementChild;
    this.context = this.canvas.getContext('2d');
    this.look = look;
    this.isIcicle = isIcicle;
    this.tree = null;
    this.zoom = 0;
    this.selected = -1;
    this.rows = [];  // what is drawn: by depth, from left to right
    this.isAsked = false;
    view.addEventListener('scroll', () => this.draw());
  }

  // `weighings`: the recording's, and perhaps that of the one before it; `side`: which one is drawn.
  show(tree, weighings, side) {
    this.tree = tree;
    this.weighings = weighings;
    this.weighing = weighings[side];
    this.zoom = 0;
    this.selected = -1;
    this.draw();
  }

  clear() {
    this.tree = null;
    this.rows = [];
    this.draw();
  }

  name(node) {
    const frame = this.tree.frames[node];
    return frame < 0 ? 'all' : this.look.names[frame];
  }

  height() {
    return Math.max((this.weighing.maxDepth + 1) * ROW, this.view.clientHeight);
  }

  scrollToRoot() {
    if (this.tree !== null) this.view.scrollTop = this.isIcicle() ? 0 : this.height();
  }

  zoomTo(node) {
    this.zoom = node;
    this.selected = node === 0 ? -1 : node;
    this.draw();
  }

  // In zoom, the ancestors span the whole width and the rest is cut to the zoomed frame.
  extent(node, width) {
    const {depths} = this.tree;
    const {starts, totals} = this.weighing;
    if (depths[node] <= depths[this.zoom]) return [0, width];
    const scale = totals[this.zoom] > 0 ? width / totals[this.zoom] : 0;
    return [(starts[node] - starts[this.zoom]) * scale, totals[node] * scale];
  }

  draw() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    this.isAsked = false;
    const {view, canvas, context} = this;
    const width = view.clientWidth;
    const height = view.clientHeight;
    const ratio = window.devicePixelRatio || 1;
    const whole = this.tree === null ? height : this.height();
    this.spacer.style.height = whole + 'px';
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = '12px ui-monospace, "DejaVu Sans Mono", monospace';
    context.textBaseline = 'middle';
    this.rows = [];
    if (this.tree === null || width === 0) return;
    for (let node = this.zoom; node !== 0; node = this.tree.parents[node]) this.place(node, width, height, whole);
    this.place(0, width, height, whole);
    let level = [this.zoom];
    while (level.length > 0) {
      const next = [];
      for (const node of level) {
        for (const child of this.tree.children(node)) {
          if (this.extent(child, width)[1] < MIN_WIDTH) continue;
          this.place(child, width, height, whole);
          next.push(child);
        }
      }
      level = next;
    }
  }

  place(node, width, height, whole) {
    const depth = this.tree.depths[node];
    const top = (this.isIcicle() ? depth * ROW : whole - (depth + 1) * ROW) - this.view.scrollTop;
    if (top + ROW < 0 || top > height) return;
    const [left, frameWidth] = this.extent(node, width);
    this.drawFrame(node, left, top, frameWidth);
    (this.rows[depth] = this.rows[depth] || []).push({node, left, top, width: frameWidth});
  }

  drawFrame(node, left, top, width) {
    const {context, look} = this;
    const frame = this.tree.frames[node];
    const isMatch = look.matches !== null && frame >= 0 && look.matches[frame] === 1;
    context.globalAlpha = this.tree.depths[node] < this.tree.depths[this.zoom] ? 0.5
        : look.matches !== null && !isMatch ? 0.45 : 1;
    context.fillStyle = isMatch ? (look.isDark ? '#b03fd1' : '#d46af0') : look.color(this, node);
    const gap = width > 2 ? 0.5 : 0;
    context.fillRect(left, top, Math.max(width - gap, MIN_WIDTH), ROW - 1);
    if (node === this.selected) {
      context.globalAlpha = 1;
      context.lineWidth = 2;
      context.strokeStyle = look.isDark ? '#ffffff' : '#000000';
      context.strokeRect(left + 1, top + 1, Math.max(width - 2.5, 1), ROW - 3);
    }
    if (width < MIN_TEXT_WIDTH) return;
    context.globalAlpha = 1;
    context.fillStyle = look.isDark ? '#f2f2f4' : '#16171a';
    context.fillText(this.fitText(this.name(node), width - 8), left + 4, top + ROW / 2);
  }

  fitText(text, width) {
    let high = Math.min(text.length, Math.ceil(width / 3));  // no letter is narrower than 3 pixels
    if (high === text.length && this.context.measureText(text).width <= width) return text;
    let low = 0;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.context.measureText(text.slice(0, middle) + '…').width <= width) low = middle;
      else high = middle - 1;
    }
    return low > 0 ? text.slice(0, low) + '…' : '';
  }

  // The node under a point of the window, or -1.
  at(clientX, clientY) {
    const box = this.canvas.getBoundingClientRect();
    const x = clientX - box.left;
    const y = clientY - box.top;
    for (const row of this.rows) {
      if (row === undefined || y < row[0].top || y >= row[0].top + ROW) continue;
      let low = 0;
      let high = row.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (row[middle].left <= x) low = middle;
        else high = middle - 1;
      }
      const hit = row[low];
      return x >= hit.left && x < hit.left + Math.max(hit.width, 1) ? hit.node : -1;
    }
    return -1;
  }

  // The neighbour in the direction of an arrow key, or -1.
  neighbour(node, key) {
    const {parents, depths} = this.tree;
    const {totals} = this.weighing;
    const isUp = key === 'ArrowUp' || key === 'ArrowDown';
    if (isUp && (key === 'ArrowUp') === this.isIcicle()) return depths[node] === 0 ? -1 : parents[node];
    if (isUp) {
      let largest = -1;
      for (const child of this.tree.children(node)) {
        if (totals[child] > 0 && (largest < 0 || totals[child] > totals[largest])) largest = child;
      }
      return largest;
    }
    if (node === 0) return -1;
    const siblings = [...this.tree.children(parents[node])].filter((sibling) => totals[sibling] > 0);
    const position = siblings.indexOf(node) + (key === 'ArrowRight' ? 1 : -1);
    return position >= 0 && position < siblings.length ? siblings[position] : -1;
  }

  // For scripts and tests: where frames are in the window.
  frameRects() {
    this.drawNow();
    const box = this.canvas.getBoundingClientRect();
    return this.rows.flat().map(({node, left, top, width}) => ({
      name: this.name(node), depth: this.tree.depths[node], x: box.left + left, y: box.top + top, width, height: ROW,
      total: this.weighing.totals[node], matched: this.look.matches !== null && this.look.matches[this.tree.frames[node]] === 1,
    }));
  }
}
