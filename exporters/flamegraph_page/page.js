'use strict';
(() => {
  const ROW = 18;  // CSS pixels
  const MIN_WIDTH = 0.4;  // narrower frames are not drawn
  const MIN_TEXT_WIDTH = 24;
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($('data').textContent);

  // ---- The tree. Parents come before their children, so one pass each way does it.
  const count = data.nodes.length / 4 + 1;
  const nodes = new Array(count);
  nodes[0] = {name: 'all', self: 0, total: 0, count: 0, depth: 0, parent: null, children: []};
  for (let i = 1; i < count; ++i) {
    const [parent, frame, self, calls] = data.nodes.slice(4 * (i - 1), 4 * i);
    nodes[i] = {
      name: data.frames[frame], self, total: self, count: calls,
      depth: nodes[parent].depth + 1, parent: nodes[parent], children: [],
    };
    nodes[parent].children.push(nodes[i]);
  }
  for (let i = count - 1; i > 0; --i) nodes[i].parent.total += nodes[i].total;
  const root = nodes[0];
  for (const node of nodes) {
    node.children.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  }
  root.x = 0;
  const pending = [root];
  let maxDepth = 0;
  while (pending.length > 0) {
    const node = pending.pop();
    let x = node.x;  // ns from the left edge
    for (const child of node.children) {
      child.x = x;
      x += child.total;
      if (child.total > 0) maxDepth = Math.max(maxDepth, child.depth);
      pending.push(child);
    }
  }

  // ---- State.
  const view = $('view');
  const canvas = $('canvas');
  const context = canvas.getContext('2d');
  const state = {zoom: root, selected: null, icicle: false, dark: false, matches: null, drawn: []};

  function formatTime(ns) {
    if (ns >= 1e9) return (ns / 1e9).toFixed(3) + ' s';
    if (ns >= 1e6) return (ns / 1e6).toFixed(3) + ' ms';
    return (ns / 1e3).toFixed(3) + ' us';
  }
  const percent = (part, whole) => (whole > 0 ? (100 * part / whole).toFixed(2) : '0.00') + ' %';

  // Equal names have equal colours; names of one namespace are of one family.
  function color(node) {
    let hash = 0;
    const separator = node.name.indexOf('::');
    const family = separator > 0 ? node.name.slice(0, separator) : 'other';
    for (let i = 0; i < family.length; ++i) hash = (hash * 31 + family.charCodeAt(i)) >>> 0;
    const hue = family === 'aten' ? 22 : family === 'other' ? 48 : 60 + hash % 280;
    for (let i = 0; i < node.name.length; ++i) hash = (hash * 31 + node.name.charCodeAt(i)) >>> 0;
    const spread = (hash >>> 8) % 24 - 12;
    const light = state.dark ? 30 + hash % 10 : 66 + hash % 12;
    return `hsl(${hue + spread} ${state.dark ? 45 : 78}% ${light}%)`;
  }

  // ---- Layout: in zoom, the ancestors span the whole width and the rest is cut to the zoomed frame.
  function leftAndWidth(node, width) {
    const zoom = state.zoom;
    if (node.depth <= zoom.depth) return [0, width];
    const scale = zoom.total > 0 ? width / zoom.total : 0;
    return [(node.x - zoom.x) * scale, node.total * scale];
  }

  function rowTop(depth, height) {
    return state.icicle ? depth * ROW : height - (depth + 1) * ROW;
  }

  function graphHeight() {
    return Math.max((maxDepth + 1) * ROW, view.clientHeight);
  }

  function visibleNodes() {
    const shown = [];
    for (let node = state.zoom; node !== null; node = node.parent) shown.push(node);
    const width = view.clientWidth;
    const open = [state.zoom];
    while (open.length > 0) {
      for (const child of open.pop().children) {
        if (leftAndWidth(child, width)[1] < MIN_WIDTH) continue;
        shown.push(child);
        open.push(child);
      }
    }
    return shown;
  }

  function fitText(text, width) {
    if (context.measureText(text).width <= width) return text;
    let low = 0;
    let high = Math.min(text.length, Math.ceil(width / 3));
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(text.slice(0, middle) + '…').width <= width) low = middle;
      else high = middle - 1;
    }
    return low > 0 ? text.slice(0, low) + '…' : '';
  }

  function drawFrame(node, left, top, width) {
    const isMatch = state.matches !== null && state.matches.has(node);
    context.globalAlpha = node.depth < state.zoom.depth ? 0.5
        : state.matches !== null && !isMatch ? 0.45 : 1;
    context.fillStyle = isMatch ? (state.dark ? '#b03fd1' : '#d46af0') : color(node);
    const gap = width > 2 ? 0.5 : 0;
    context.fillRect(left, top, Math.max(width - gap, MIN_WIDTH), ROW - 1);
    if (node === state.selected) {
      context.globalAlpha = 1;
      context.lineWidth = 2;
      context.strokeStyle = state.dark ? '#ffffff' : '#000000';
      context.strokeRect(left + 1, top + 1, Math.max(width - 2.5, 1), ROW - 3);
    }
    if (width < MIN_TEXT_WIDTH) return;
    context.globalAlpha = 1;
    context.fillStyle = state.dark ? '#f2f2f4' : '#16171a';
    context.fillText(fitText(node.name, width - 8), left + 4, top + ROW / 2);
  }

  let requested = false;
  function draw() {
    if (requested) return;
    requested = true;
    requestAnimationFrame(drawNow);
  }

  function drawNow() {
    requested = false;
    const width = view.clientWidth;
    const height = view.clientHeight;
    const ratio = window.devicePixelRatio || 1;
    const total = graphHeight();
    $('spacer').style.height = total + 'px';
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = '12px ui-monospace, "DejaVu Sans Mono", monospace';
    context.textBaseline = 'middle';
    state.drawn = [];
    for (const node of visibleNodes()) {
      const top = rowTop(node.depth, total) - view.scrollTop;
      if (top + ROW < 0 || top > height) continue;
      const [left, frameWidth] = leftAndWidth(node, width);
      drawFrame(node, left, top, frameWidth);
      state.drawn.push({node, left, top, width: frameWidth});
    }
  }

  function nodeAt(clientX, clientY) {
    const box = canvas.getBoundingClientRect();
    const x = clientX - box.left;
    const y = clientY - box.top;
    const hit = state.drawn.find((rect) => x >= rect.left && x < rect.left + Math.max(rect.width, 1) &&
        y >= rect.top && y < rect.top + ROW);
    return hit === undefined ? null : hit.node;
  }

  // ---- What the reader does.
  function scrollToRoot() {
    view.scrollTop = state.icicle ? 0 : graphHeight();
  }

  function zoomTo(node) {
    state.zoom = node;
    state.selected = node === root ? null : node;
    draw();
    describe(node);
  }

  function facts(node) {
    const list = [
      ['Self', `${formatTime(node.self)} (${percent(node.self, root.total)} of all)`],
      ['Total', `${formatTime(node.total)} (${percent(node.total, root.total)} of all)`],
    ];
    if (node !== root) list.push(['Count', node.count.toLocaleString('en-US')]);
    if (state.zoom !== root && node.depth > state.zoom.depth) {
      list.push(['Of view', percent(node.total, state.zoom.total)]);
    }
    return list;
  }

  function describe(node) {
    $('details').textContent =
        node.name + ' · ' + facts(node).map(([name, value]) => `${name} ${value}`).join(' · ');
  }

  function showTooltip(node, clientX, clientY) {
    const tooltip = $('tooltip');
    tooltip.hidden = node === null;
    if (node === null) return;
    const name = document.createElement('b');
    name.textContent = node.name;
    const list = document.createElement('dl');
    for (const [term, value] of facts(node)) {
      list.appendChild(document.createElement('dt')).textContent = term;
      list.appendChild(document.createElement('dd')).textContent = value;
    }
    tooltip.replaceChildren(name, list);
    tooltip.style.left = '0';  // else the right edge of the window would make it narrower
    const box = tooltip.getBoundingClientRect();
    const left = Math.min(clientX + 14, window.innerWidth - box.width - 4);
    const below = clientY + 18;
    const top = below + box.height > window.innerHeight ? clientY - box.height - 8 : below;
    tooltip.style.left = Math.max(left, 4) + 'px';
    tooltip.style.top = Math.max(top, 4) + 'px';
  }

  function matcher(query) {
    const regex = /^\/(.+)\/$/.exec(query);
    if (regex !== null) {
      try {
        const compiled = new RegExp(regex[1], 'i');
        return (name) => compiled.test(name);
      } catch {
        return () => false;
      }
    }
    const lower = query.toLowerCase();
    return (name) => name.toLowerCase().includes(lower);
  }

  // Time is counted once where a match lies inside another.
  function search(query) {
    state.matches = null;
    $('matched').textContent = '';
    if (query !== '') {
      const isMatch = matcher(query);
      state.matches = new Set();
      let matched = 0;
      const open = root.children.map((node) => [node, false]);
      while (open.length > 0) {
        const [node, inside] = open.pop();
        const hit = isMatch(node.name);
        if (hit) state.matches.add(node);
        if (hit && !inside) matched += node.total;
        for (const child of node.children) open.push([child, inside || hit]);
      }
      $('matched').textContent = `Matched: ${percent(matched, root.total)}`;
    }
    draw();
  }

  function setIcicle(on) {
    state.icicle = on;
    $('icicle').setAttribute('aria-pressed', String(on));
    draw();
    scrollToRoot();
  }

  function setDark(on) {
    state.dark = on;
    document.documentElement.dataset.theme = on ? 'dark' : 'light';
    $('theme').setAttribute('aria-pressed', String(on));
    draw();
  }

  function reset() {
    zoomTo(root);
    scrollToRoot();
  }

  // The neighbour in the direction of an arrow key, or null.
  function neighbour(node, key) {
    const toRoot = state.icicle ? 'ArrowUp' : 'ArrowDown';
    const toLeaf = state.icicle ? 'ArrowDown' : 'ArrowUp';
    if (key === toRoot) return node.parent;
    if (key === toLeaf) {
      return node.children.reduce((best, child) => (best === null || child.total > best.total ? child : best), null);
    }
    if (node.parent === null) return null;
    const siblings = node.parent.children.filter((sibling) => sibling.total > 0);
    return siblings[siblings.indexOf(node) + (key === 'ArrowRight' ? 1 : -1)] || null;
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape') {
      $('search').value = '';
      search('');
      reset();
      view.focus();
    } else if (event.target === $('search')) {
      return;
    } else if (event.key === '/') {
      event.preventDefault();
      $('search').focus();
      $('search').select();
    } else if (event.key === 'i') {
      setIcicle(!state.icicle);
    } else if (event.key === 'd') {
      setDark(!state.dark);
    } else if (event.key === 'Enter' && event.target === view && state.selected !== null) {
      zoomTo(state.selected);
    } else if (event.key.startsWith('Arrow') && event.target === view) {
      event.preventDefault();
      const next = neighbour(state.selected || state.zoom, event.key);
      if (next === null) return;
      state.selected = next;
      describe(next);
      draw();
    }
  }

  // ---- Start.
  const title = data.title || 'Flame graph';
  document.title = title;
  $('title').textContent = title;
  $('subtitle').textContent = (data.subtitle ? data.subtitle + ' · ' : '') +
      `self CPU time ${formatTime(root.total)} in a window of ${formatTime(data.window_ns)}`;
  const notices = [];
  if (data.lost) notices.push('Events were lost: times may be too small (see the ledger in summary.json).');
  if (data.incomplete > 0) notices.push(`${data.incomplete} spans whose end was not seen are not shown.`);
  if (root.total === 0) notices.push('No complete operator in the recorded window.');
  $('notice').textContent = notices.join(' ');
  $('notice').hidden = notices.length === 0;

  canvas.addEventListener('click', (event) => {
    const node = nodeAt(event.clientX, event.clientY);
    if (node !== null) zoomTo(node);
  });
  canvas.addEventListener('mousemove', (event) => {
    const node = nodeAt(event.clientX, event.clientY);
    canvas.style.cursor = node === null ? 'default' : 'pointer';
    showTooltip(node, event.clientX, event.clientY);
    if (node !== null) describe(node);
  });
  canvas.addEventListener('mouseleave', () => showTooltip(null, 0, 0));
  view.addEventListener('scroll', draw);
  window.addEventListener('resize', draw);
  document.addEventListener('keydown', onKey);
  $('search').addEventListener('input', () => search($('search').value));
  $('reset').addEventListener('click', reset);
  $('icicle').addEventListener('click', () => setIcicle(!state.icicle));
  $('theme').addEventListener('click', () => setDark(!state.dark));
  const darkQuery = window.matchMedia('(prefers-color-scheme: dark)');
  setDark(darkQuery.matches);
  darkQuery.addEventListener('change', (event) => setDark(event.matches));
  drawNow();
  scrollToRoot();

  // For scripts and for the page's own test: where a frame is on the screen, and what is shown.
  window.flamegraph = {
    state,
    frameRects: () => {
      drawNow();
      const box = canvas.getBoundingClientRect();
      return state.drawn.map(({node, left, top, width}) => ({
        name: node.name, depth: node.depth, x: box.left + left, y: box.top + top, width, height: ROW,
        matched: state.matches !== null && state.matches.has(node),
      }));
    },
  };
})();
