// ---- What the reader does.
const mainGraph = new Graph($('view'), look, () => state.icicle);
const callersGraph = new Graph($('callers'), look, () => false);
const calleesGraph = new Graph($('callees'), look, () => true);
const graphs = [mainGraph, callersGraph, calleesGraph];

function facts(graph, node) {
  const weighing = graph.weighings[side()];
  const list = [];
  // A caller's bar is what was called through it: it has no self time of its own.
  if (graph !== callersGraph) list.push(['Self', `${format(weighing.self[node])} (${percent(weighing.self[node], all())} of all)`]);
  list.push(['Total', `${format(weighing.totals[node])} (${percent(weighing.totals[node], all())} of all)`]);
  if (hasCount(graph.tree.frames[node]) && graph !== callersGraph) {
    list.push(['Count', weighing.counts[node].toLocaleString('en-US')]);
  }
  if (before !== null) {
    const [now, earlier] = graph.weighings;
    if (graph !== callersGraph) list.push(['Change of self', signed(change(now.self[node], earlier.self[node]))]);
    list.push(['Change of total', signed(change(now.totals[node], earlier.totals[node]))]);
  }
  if (graph.zoom !== 0 && graph.tree.depths[node] > graph.tree.depths[graph.zoom]) {
    list.push(['Of view', percent(weighing.totals[node], weighing.totals[graph.zoom])]);
  }
  return list;
}

function describe(graph, node) {
  $('details').textContent = graph.name(node).slice(0, 1000) + ' · ' +
      facts(graph, node).map(([name, value]) => `${name} ${value}`).join(' · ');
}

function showTooltip(graph, node, clientX, clientY) {
  const tooltip = $('tooltip');
  tooltip.hidden = node < 0;
  if (node < 0) return;
  const name = document.createElement('b');
  name.textContent = graph.name(node);
  const list = document.createElement('dl');
  for (const [term, value] of facts(graph, node)) {
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

function zoomTo(graph, node) {
  graph.zoomTo(node);
  describe(graph, node);
  if (graph === mainGraph) remember(true);
}

function search(query) {
  state.query = query;
  look.matches = query === '' ? null : matchFrames(data.frames, query);
  const isWrong = query !== '' && look.matches === null;
  $('search').setAttribute('aria-invalid', String(isWrong));
  $('matched').textContent = query === '' ? '' : isWrong ? 'Not a regular expression'
      : `Matched: ${percent(matchedTotal(tree, weighings()[side()].totals, look.matches), all())}`;
  rowsShown = ROWS_AT_ONCE;
  if (state.view === 'functions') showTable();
  for (const graph of graphs) graph.draw();
}

function setPressed(id, isOn) {
  $(id).setAttribute('aria-pressed', String(isOn));
}

function showView(view) {
  state.view = view;
  $('view').hidden = view !== 'graph';
  $('functions').hidden = view !== 'functions';
  $('icicle').hidden = view !== 'graph';
  setPressed('show_graph', view === 'graph');
  setPressed('show_functions', view === 'functions');
  if (view === 'functions') {
    showTable();
    showSandwich();
  }
  for (const graph of graphs) graph.draw();
}

function focusOn(frame) {
  if (frame < 0) return;
  state.focus = frame;
  showView('functions');
  remember(true);
}

// The weight, or how recordings are compared, has changed: everything anew, the same frame in view.
function showAgain() {
  const zoom = mainGraph.zoom;
  mainGraph.show(tree, weighings(), side());
  mainGraph.zoomTo(weighings()[side()].totals[zoom] > 0 ? zoom : 0);
  search(state.query);
  showView(state.view);
  const weight = data.weights[state.weight];
  $('subtitle').textContent = (data.subtitle ? data.subtitle + ' · ' : '') +
      `${weight.title} ${format(weighings()[0].totals[0])} in a window of ${formatValue(data.window_ns, 'ns')}` +
      (before === null ? '' : `, before: ${format(weighings()[1].totals[0])} in ${formatValue(before.window_ns, 'ns')}`);
  showNotices();
}

function showNotices() {
  const notices = [];
  const isLost = data.lost || (before !== null && before.lost);
  if (isLost) notices.push('Events were lost: figures may be too small (see the ledger in summary.json).');
  const incomplete = data.incomplete + (before === null ? 0 : before.incomplete);
  if (incomplete > 0) notices.push(`${incomplete} spans whose end was not seen are not shown.`);
  if (all() === 0) notices.push(`No ${data.weights[state.weight].title} in the recorded window.`);
  if (before !== null) {
    const [now, earlier] = weighings();
    let paths = 0;
    let sum = 0;
    for (let i = 1; i < tree.size; ++i) {
      if (now.totals[i] === 0 && earlier.totals[i] > 0) ++paths;
      if (now.totals[i] === 0) sum += earlier.self[i];
    }
    if (paths > 0 && side() === 0) {
      notices.push(`${paths.toLocaleString('en-US')} paths with ${format(sum)} are only in the recording before: ` +
                   'set the width to that of the one before to see them.');
    }
  }
  $('notice').textContent = notices.join(' ');
  $('notice').hidden = notices.length === 0;
}

function setIcicle(isOn) {
  state.icicle = isOn;
  setPressed('icicle', isOn);
  mainGraph.drawNow();
  mainGraph.scrollToRoot();
}

function setDark(isOn) {
  state.dark = look.isDark = isOn;
  document.documentElement.dataset.theme = isOn ? 'dark' : 'light';
  setPressed('theme', isOn);
  for (const graph of graphs) graph.draw();
}

function reset() {
  for (const graph of graphs) {
    if (graph.tree !== null) graph.zoomTo(0);
  }
  mainGraph.drawNow();
  mainGraph.scrollToRoot();
  describe(mainGraph, 0);
  remember(true);
}

// ---- The state in the page's address, so that a link shows the same.
// `isStep`: something to come back to by the browser's back button.
function remember(isStep) {
  const hash = new URLSearchParams();
  if (state.weight !== data.first) hash.set('w', data.weights[state.weight].name);
  if (state.view !== 'graph') hash.set('v', state.view);
  if (state.focus >= 0) hash.set('f', data.frames[state.focus]);
  if (mainGraph.zoom !== 0) hash.set('z', mainGraph.zoom);
  if (state.query !== '') hash.set('q', state.query);
  if (state.icicle) hash.set('i', '1');
  if (state.sort.key !== DEFAULTS.sort.key || !state.sort.isDown) {
    hash.set('o', state.sort.key + (state.sort.isDown ? '' : '-up'));
  }
  for (const key of ['side', 'by', 'scale']) {
    if (state[key] !== DEFAULTS[key]) hash.set(key, state[key]);
  }
  const text = hash.toString();
  if (text === window.location.hash.slice(1)) return;
  try {
    window.history[isStep ? 'pushState' : 'replaceState'](null, '', '#' + text);
  } catch {
    // A page inside of another document may have no address of its own: then there is no link to it.
  }
}

function oneOf(value, choices, otherwise) {
  return choices.includes(value) ? value : otherwise;
}

// What a link says, as far as this page has it: its text may be anybody's.
function recall() {
  const hash = new URLSearchParams(window.location.hash.slice(1));
  const weight = data.weights.findIndex(({name}) => name === hash.get('w'));
  state.weight = weight < 0 ? data.first : weight;
  state.view = oneOf(hash.get('v'), ['graph', 'functions'], 'graph');
  state.focus = hash.has('f') ? data.frames.indexOf(hash.get('f')) : -1;
  state.side = before === null ? 'after' : oneOf(hash.get('side'), ['after', 'before'], DEFAULTS.side);
  state.by = oneOf(hash.get('by'), ['total', 'self'], DEFAULTS.by);
  state.scale = oneOf(hash.get('scale'), scales(), DEFAULTS.scale);
  const [key, up] = (hash.get('o') || '').split('-');
  const isColumn = COLUMNS.some((column) => column.key === key);
  state.sort = isColumn ? {key, isDown: up !== 'up'} : {...DEFAULTS.sort};
  state.query = hash.get('q') || '';
  $('search').value = state.query;
  for (const id of ['side', 'by', 'scale']) $(id).value = state[id];
  $('weight').value = String(state.weight);
  const zoom = Number(hash.get('z'));
  mainGraph.zoom = Number.isInteger(zoom) && zoom > 0 && zoom < tree.size ? zoom : 0;
  state.icicle = hash.get('i') === '1';
  showAgain();
  setIcicle(state.icicle);
}

function scales() {
  const hasSteps = before !== null && data.steps > 0 && before.steps > 0;
  return hasSteps ? ['share', 'step', 'none'] : ['share', 'none'];
}

// ---- Events.
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const graph = graphs.find((one) => one.view === event.target) || mainGraph;
  if (event.key === 'Escape') {
    const isNothingToClear = state.query === '' && mainGraph.zoom === 0;
    if (isNothingToClear && state.view === 'functions') showView('graph');
    $('search').value = '';
    search('');
    reset();
    $('view').focus();
  } else if (event.target === $('search') || event.target instanceof HTMLSelectElement) {
    return;
  } else if (event.key === '/') {
    event.preventDefault();
    $('search').focus();
    $('search').select();
  } else if (event.key === 'i') {
    setIcicle(!state.icicle);
    remember(false);
  } else if (event.key === 'd') {
    setDark(!state.dark);
  } else if (event.key === 't') {
    showView(state.view === 'graph' ? 'functions' : 'graph');
    remember(true);
  } else if (event.key === 's' && graph.tree !== null && graph.selected > 0) {
    focusOn(graph.tree.frames[graph.selected]);
  } else if (event.key === 'Enter' && event.target === graph.view && graph.selected >= 0) {
    zoomTo(graph, graph.selected);
  } else if (event.key.startsWith('Arrow') && event.target === graph.view && graph.tree !== null) {
    event.preventDefault();
    const next = graph.neighbour(graph.selected >= 0 ? graph.selected : graph.zoom, event.key);
    if (next < 0) return;
    graph.selected = next;
    describe(graph, next);
    graph.draw();
  }
}

for (const graph of graphs) {
  const {canvas} = graph;
  canvas.addEventListener('click', (event) => {
    const node = graph.at(event.clientX, event.clientY);
    if (node >= 0) zoomTo(graph, node);
  });
  canvas.addEventListener('dblclick', (event) => {
    const node = graph.at(event.clientX, event.clientY);
    if (node >= 0) focusOn(graph.tree.frames[node]);
  });
  canvas.addEventListener('mousemove', (event) => {
    const node = graph.at(event.clientX, event.clientY);
    canvas.style.cursor = node < 0 ? 'default' : 'pointer';
    showTooltip(graph, node, event.clientX, event.clientY);
    if (node >= 0) describe(graph, node);
  });
  canvas.addEventListener('mouseleave', () => showTooltip(graph, -1, 0, 0));
}
window.addEventListener('resize', () => graphs.forEach((graph) => graph.draw()));
window.addEventListener('popstate', recall);
document.addEventListener('keydown', onKey);
$('search').addEventListener('input', () => {
  search($('search').value);
  remember(false);
});
$('reset').addEventListener('click', reset);
$('icicle').addEventListener('click', () => {
  setIcicle(!state.icicle);
  remember(false);
});
$('theme').addEventListener('click', () => setDark(!state.dark));
for (const view of ['graph', 'functions']) {
  $('show_' + view).addEventListener('click', () => {
    showView(view);
    remember(true);
  });
}
$('more_rows').addEventListener('click', () => {
  rowsShown += 2 * ROWS_AT_ONCE;
  showTable();
});
for (const id of ['weight', 'side', 'by', 'scale']) {
  $(id).addEventListener('change', () => {
    state[id] = id === 'weight' ? Number($(id).value) : $(id).value;
    showAgain();
    remember(true);
  });
}

// ---- Start.
const DEFAULTS = {side: state.side, by: state.by, scale: state.scale, sort: {...state.sort}};
const nameOf = (recording) => recording.title || recording.subtitle || 'a recording';
const title = before === null ? data.title || 'Flame graph' : `${nameOf(data)} compared with ${nameOf(before)}`;
document.title = title;
$('title').textContent = title;
data.weights.forEach((weight, i) => $('weight').add(new Option(weight.title, String(i))));
$('diff_tools').hidden = before === null;
if (!scales().includes('step')) $('scale').querySelector('[value="step"]').remove();
if (before === null) {
  const used = new Set(data.kinds);
  $('legend').replaceChildren(...KINDS.flatMap((kind, number) => {
    if (!used.has(number)) return [];
    const swatch = document.createElement('i');
    swatch.style.background = `hsl(${kind.hue} 74% 66%)`;
    return [swatch, kind.name + ' '];
  }));
}
const darkQuery = window.matchMedia('(prefers-color-scheme: dark)');
setDark(darkQuery.matches);
darkQuery.addEventListener('change', (event) => setDark(event.matches));
mainGraph.show(tree, weighings(), side());
recall();

// For scripts and for the page's own test: what is shown, and where a frame is on the screen.
window.flamegraph = {
  state,
  zoomed: () => mainGraph.name(mainGraph.zoom),
  selected: () => (mainGraph.selected < 0 ? null : mainGraph.name(mainGraph.selected)),
  frameRects: () => mainGraph.frameRects(),
  callerRects: () => callersGraph.frameRects(),
  calleeRects: () => calleesGraph.frameRects(),
  tree, weighings, functionSums,
};
