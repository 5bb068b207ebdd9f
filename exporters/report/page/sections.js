// ---- The sections of the page. Each makes its element once, and shows the window that is chosen.

// `window`: an index into the windows of steps, or -1 for the whole recording.
function wholeOr(window, whole, ofWindow) { return window < 0 ? whole : ofWindow; }

function verdictSection() {
  const {verdict} = facts;
  const element = make('div', 'verdict');
  element.appendChild(make('p', 'about', verdict.about));
  const list = element.appendChild(make('ol'));
  for (const finding of verdict.findings) {
    const item = list.appendChild(make('li'));
    const head = item.appendChild(make('div', 'finding'));
    const measure = head.appendChild(make('span', 'measure'));
    measure.appendChild(make('b', '', time(finding.ms_a_step * 1e6)));
    measure.append(verdict.are_steps ? ' a step' : '');
    const what = head.appendChild(make('div'));
    const bar = what.appendChild(make('div', 'share'));
    bar.title = share(finding.share, 1);
    bar.appendChild(make('i')).style.width = Math.min(100, 100 * finding.share).toFixed(1) + '%';
    what.appendChild(make('p', 'what', finding.what.replace(/^./u, (letter) => letter.toUpperCase()) + '.'));
    const words = what.appendChild(make('p', 'muted'));
    words.append(`${share(finding.share, 1)} of the time · `, make('span', finding.certainty, finding.certainty));
    if (finding.is_part_of_others && verdict.findings.length > 1) words.append(' · part of the others');
    for (const sentence of finding.evidence) what.appendChild(make('p', 'evidence', sentence));
    if (finding.next !== '') {
      const next = what.appendChild(make('p', 'next', 'To know more, record with '));
      next.append(make('code', '', finding.next), '.');
    }
  }
  for (const remark of verdict.remarks) element.appendChild(make('p', 'remark', remark));
  return {element};
}

function stepsSection(columns, onChoose) {
  const element = make('div');
  const {steps, summary} = facts;
  if (steps.count === 0) {
    element.appendChild(make('p', 'muted', 'Nothing was recorded of the thread that drives the job.'));
    return {element, bars: null};
  }
  const how = summary.steps.how ? `, found by ${summary.steps.how} (confidence ${summary.steps.confidence.toFixed(2)})` : '';
  const words = steps.are_steps
      ? `${count(steps.count)} steps, median ${time(steps.median_ns)}, 99 % below ${time(steps.p99_ns)}${how}. Click one: all below is of it.`
      : 'No steps were found; the window stands for one.';
  element.appendChild(make('p', 'muted', words));
  const leftOut = steps.count - facts.verdict.steps;
  if (steps.are_steps && leftOut > 0) {
    element.appendChild(make('p', 'muted', `The reasons above are about ${count(facts.verdict.steps)} of them: ` +
        `${count(leftOut)} began while the recording itself started.`));
  }
  if (!steps.has_kernel) {
    element.appendChild(make('p', 'muted', 'Waits are not told apart: record with --activities cpu,syscalls,sched to see them.'));
  }
  const bars = new StepBars(columns, onChoose);
  element.appendChild(bars.view);
  const all = bars.parts.map((one) => ({...one, sum: steps.sum_ns[one.part]})).filter((one) => one.sum > 0);
  all.sort((a, b) => b.sum - a.sum);
  element.appendChild(legend(all.map(({words: text, color, sum}) => [`${text} ${share(sum, steps.total_ns)}`, color])));
  return {element, bars, show: () => bars.draw()};
}

// ---- Operators.
const OPERATOR_NAMES = ['name', 'shapes', 'kind', 'count', 'self', 'total', 'dev_self', 'dev_total', 'memory', 'device_memory', 'off_cpu', 'flops'];

function operatorColumns(totals) {
  const number = (key, title, text, help, bar) => ({key, title, help, value: (row) => row[key], text: (row) => (row[key] === 0 ? '' : text(row[key])), bar});
  const columns = [
    {key: 'name', title: 'Name'},
    number('self', 'Self CPU', time, 'Time of its own, without what it called', () => totals.self),
    {key: 'part', title: 'Self %', value: (row) => row.self, text: (row) => share(row.self, totals.self)},
    number('total', 'CPU total', time, 'With what it called'),
    {key: 'average', title: 'CPU avg', value: (row) => (row.count > 0 ? row.total / row.count : 0), text: (row) => (row.count > 0 && row.total > 0 ? time(row.total / row.count) : '')},
    number('count', 'Calls', count, 'How often it ran'),
  ];
  if (facts.recorded.gpu) columns.push(number('dev_self', 'Self GPU', time, 'Kernels and copies that it asked for itself', () => totals.device));
  if (facts.recorded.gpu) columns.push(number('dev_total', 'GPU total', time, 'Those of what it called as well'));
  if (facts.recorded.sched) columns.push(number('off_cpu', 'Off CPU', time, 'Of its own time, off the CPU'));
  if (facts.recorded.memory) columns.push(number('memory', 'Memory', bytesText, 'CPU memory, allocated less freed, by itself'));
  if (facts.recorded.memory && facts.recorded.gpu) columns.push(number('device_memory', 'GPU memory', bytesText, 'GPU memory, allocated less freed, by itself'));
  return columns;
}

function withTexts(rows, keys) {
  for (const row of rows) row.texts = keys.map((key) => row[key]);
  return rows;
}

function operatorsSection(columns) {
  const rows = withTexts(columns.rows('ops', OPERATOR_NAMES, ['name', 'shapes']), ['name']);
  const totals = {self: 0, device: 0};
  const table = new SortedTable('op', operatorColumns(totals), 'self');
  const element = make('div');
  const note = element.appendChild(make('p', 'muted'));
  element.appendChild(table.element);
  const shapes = columns.has('shapes.name') ? withTexts(columns.rows('shapes', OPERATOR_NAMES, ['name', 'shapes']), ['name', 'shapes']) : [];
  const box = element.appendChild(make('div', 'by_shape'));
  let open = null;
  const shapeTotals = {self: 0, device: 0};
  const shapeTable = new SortedTable('shape', [{key: 'shapes', title: 'Input shapes'}, ...operatorColumns(shapeTotals).slice(1)], 'self');
  const showShapes = (name) => {
    open = open === name ? null : name;
    box.replaceChildren();
    if (open === null) return;
    const own = shapes.filter((row) => row.name === name);
    shapeTotals.self = own.reduce((sum, row) => sum + row.self, 0);
    shapeTotals.device = own.reduce((sum, row) => sum + row.dev_self, 0);
    box.append(make('h3', '', `${name} by shape, of the whole recording`), shapeTable.element);
    shapeTable.setRows(own);
  };
  if (shapes.length > 0) {
    for (const row of rows) row.open = () => showShapes(row.name);
  }
  const show = (window) => {
    const shares = wholeOr(window, null, columns.shares('ops.share', window));
    const shown = shares === null ? rows : rows.filter((row) => shares.has(row.index)).map((row) => {
      const [calls, self, total, device] = shares.get(row.index);
      return {...row, count: calls, self, total, dev_self: device, dev_total: row.kind === 1 ? device : 0, memory: 0, device_memory: 0, off_cpu: 0};
    });
    totals.self = shares === null ? facts.ops.self_total_ns : shown.reduce((sum, row) => sum + row.self, 0);
    totals.device = shown.reduce((sum, row) => sum + (row.kind === 1 ? row.dev_self : 0), 0);
    note.textContent = `All threads: ${time(totals.self)} of CPU time in rows` + (totals.device > 0 ? `, ${time(totals.device)} of GPUs` : '') + '.' +
        (window < 0 ? '' : ' What began in the step; memory and time off the CPU are told of the whole recording alone.') +
        (shapes.length > 0 ? ' Click a row for its shapes.' : window < 0 && !facts.recorded.shapes ? ' By shape with --record-shapes.' : '');
    table.setRows(shown);
  };
  return {element, show, table, tables: [table, shapeTable], refresh: () => { table.show(); if (open !== null) shapeTable.show(); }};
}

// ---- Modules: a treemap by the path of attributes, and a table.
function moduleTree(rows) {
  const byPath = new Map();
  for (const row of rows) {
    if (row.path !== '') byPath.set(row.pid + ' ' + row.path, row);
    row.children = [];
  }
  const roots = rows.filter((row) => row.path === '').sort((a, b) => b.time - a.time);
  const top = [...roots];
  for (const row of rows) {
    if (row.path === '') continue;
    let parent;
    for (let cut = row.path.lastIndexOf('.'); cut > 0 && parent === undefined; cut = row.path.lastIndexOf('.', cut - 1)) {
      parent = byPath.get(row.pid + ' ' + row.path.slice(0, cut));
    }
    parent = parent || roots.find((root) => root.pid === row.pid);
    if (parent === undefined) top.push(row);
    else parent.children.push(row);
  }
  return top;
}

// Boxes as square as they get, in rows along the shorter side (Bruls, Huizing and van Wijk's rule).
function squarify(items, box, place) {
  let {x, y, width, height} = box;
  let rest = items.reduce((sum, item) => sum + item.time, 0);
  let at = 0;
  while (at < items.length && rest > 0 && width > 1 && height > 1) {
    const side = Math.min(width, height);
    const scale = width * height / rest;
    const worst = (sum, most, least) => Math.max(side * side * most / (sum * sum), sum * sum / (side * side * least));
    let end = at;
    let sum = 0;
    while (end < items.length) {
      const area = items[end].time * scale;
      const most = items[at].time * scale;
      if (area <= 0 || (end > at && worst(sum, most, items[end - 1].time * scale) < worst(sum + area, most, area))) break;
      sum += area;
      ++end;
    }
    if (end === at) break;
    const thick = sum / side;
    let along = 0;
    for (; at < end; ++at) {
      const long = items[at].time * scale / thick;
      place(items[at], width < height ? {x: x + along, y, width: long, height: thick} : {x, y: y + along, width: thick, height: long});
      along += long;
      rest -= items[at].time;
    }
    if (width < height) { y += thick; height -= thick; } else { x += thick; width -= thick; }
  }
}

function drawTreemap(view, top, whole) {
  view.replaceChildren();
  let left = 600;  // boxes at most
  // Across, places are shares, so that the boxes fit on paper, too.
  const across = (pixels) => 100 * pixels / view.clientWidth + '%';
  const add = (row, box, depth, parent) => {
    if (box.width < 5 || box.height < 5 || --left < 0) return;
    const element = view.appendChild(make('div', 'module'));
    Object.assign(element.style, {left: across(box.x), top: box.y + 'px', width: across(box.width - 1), height: box.height - 1 + 'px'});
    const name = (parent !== null && parent.path !== '' ? row.path.slice(parent.path.length + 1) : row.path) || row.class;
    if (box.width > 34 && box.height > 15) element.textContent = `${name} ${share(row.time, whole)}`;
    element.dataset.depth = depth % 5;
    element.title = `${row.path || row.class} (${row.class})\nforward ${time(row.forward)}, backward ${time(row.backward)}, ${share(row.time, whole)}`;
    const children = row.children.filter((child) => child.time > 0).sort((a, b) => b.time - a.time);
    const own = Math.max(0, row.time - children.reduce((sum, child) => sum + child.time, 0));
    const inner = {x: box.x + 2, y: box.y + 16, width: box.width - 5, height: box.height - 19};
    if (children.length === 0 || inner.width < 12 || inner.height < 12) return;
    // The part of a module that is no module's in it stays empty.
    squarify([...children, {time: own, isRest: true}].filter((one) => one.time > 0).sort((a, b) => b.time - a.time), inner,
             (child, place) => { if (!child.isRest) add(child, place, depth + 1, row); });
  };
  squarify(top.filter((row) => row.time > 0).sort((a, b) => b.time - a.time), {x: 0, y: 0, width: view.clientWidth, height: view.clientHeight},
           (row, box) => add(row, box, 0, null));
}

function modulesSection(columns) {
  const names = ['pid', 'path', 'class', 'calls', 'forward', 'self_forward', 'backward', 'self_backward', 'operators', 'memory'];
  const rows = withTexts(columns.rows('modules', names, ['path', 'class']), ['path', 'class']);
  const element = make('div');
  const view = element.appendChild(make('div', 'treemap'));
  const none = element.appendChild(make('p', 'muted', 'No call of a module began in this step.'));
  const totals = {all: 0};
  const number = (key, title, text) => ({key, title, value: (row) => row[key], text: (row) => (row[key] === 0 ? '' : text(row[key]))});
  const table = new SortedTable('module', [
    {key: 'path', title: 'Module', text: (row) => row.path || '(model)'}, {key: 'class', title: 'Class'},
    {...number('time', 'Forward + backward', time), bar: () => totals.all}, number('forward', 'Forward', time),
    number('self_forward', 'Self forward', time), number('backward', 'Backward', time), number('calls', 'Calls', count),
    ...(facts.recorded.memory ? [number('memory', 'Memory', bytesText)] : []),
  ], 'time');
  element.appendChild(table.element);
  let shown = [];
  const draw = () => drawTreemap(view, moduleTree(shown), totals.all);
  const show = (window) => {
    const shares = wholeOr(window, null, columns.shares('modules.share', window));
    shown = (shares === null ? rows : rows.filter((row) => shares.has(row.index)).map((row) => {
      const [calls, forward, selfForward, backward] = shares.get(row.index);
      return {...row, calls, forward, self_forward: selfForward, backward, memory: 0};
    }));
    for (const row of shown) row.time = row.forward + row.backward;
    const top = moduleTree(shown);
    totals.all = top.reduce((sum, row) => sum + row.time, 0);
    none.hidden = totals.all > 0;
    view.hidden = totals.all === 0;
    table.setRows(shown);
    draw();
  };
  return {element, show, draw, tables: [table], refresh: () => table.show()};
}

// ---- The flame graph.
const FRAME_HUES = [22, 48, 70, 345, 212, 178, 120, 265, 305];  // by FrameKind, as the flame graph's page has them

function flameSection(columns) {
  const names = Array.from(columns.get('frames.name'), (text) => columns.texts[text]);
  const kinds = columns.get('frames.kind');
  const size = columns.get('nodes.parent').length + 1;
  const withRoot = (list, type) => {
    const values = new type(size);
    values.set(list, 1);
    return values;
  };
  const ranks = new Int32Array(names.length);
  Array.from(names.keys()).sort((a, b) => (names[a] < names[b] ? -1 : names[a] > names[b] ? 1 : a - b)).forEach((frame, rank) => { ranks[frame] = rank; });
  const frames = withRoot(columns.get('nodes.frame'), Int32Array);
  frames[0] = -1;
  const tree = new Tree(withRoot(columns.get('nodes.parent'), Int32Array), frames, ranks);
  const counts = withRoot(columns.get('nodes.count'), Float64Array);
  const look = {names, matches: null, isDark: false, color: (graph, node) => {
    const frame = graph.tree.frames[node];
    if (frame < 0) return look.isDark ? 'hsl(0 0% 32%)' : 'hsl(0 0% 84%)';
    const hash = hashOf(names[frame]);
    return `hsl(${FRAME_HUES[kinds[frame]] + (hash >>> 8) % 20 - 10} ${look.isDark ? 42 : 74}% ${look.isDark ? 28 + hash % 10 : 68 + hash % 12}%)`;
  }};
  const element = make('div');
  const tools = element.appendChild(make('p', 'tools'));
  const choice = tools.appendChild(make('label', '', 'Width ')).appendChild(make('select'));
  facts.weights.forEach(({title}, i) => { choice.appendChild(make('option', '', title)).value = i; });
  const reset = tools.appendChild(button('Reset zoom', 'Show everything', () => graph.zoomTo(0)));
  reset.dataset.action = 'reset';
  const note = tools.appendChild(make('span', 'muted'));
  const view = element.appendChild(make('div', 'graph'));
  view.tabIndex = 0;
  view.setAttribute('aria-label', 'Flame graph: click or Enter to zoom, arrow keys to move');
  view.appendChild(make('div', 'spacer')).appendChild(make('canvas'));
  const graph = new Graph(view, look, () => true);
  const details = element.appendChild(make('p', 'details', 'Click a frame to zoom to it.'));
  const format = (value) => (facts.weights[choice.value].unit === 'ns' ? time(value) : formatValue(value, facts.weights[choice.value].unit));
  const words = (node) => [graph.name(node), `total ${format(graph.weighing.totals[node])} (${percent(graph.weighing.totals[node], graph.weighing.totals[0])}), self ${format(graph.weighing.self[node])}`];
  let window = -1;
  const show = (next) => {
    window = next;
    const weight = facts.weights[choice.value];
    let values = withRoot(columns.get('weight.' + weight.name), Float64Array);
    const isOfStep = window >= 0 && (weight.name === 'self_cpu_time_total' || weight.name === 'count');
    if (isOfStep) {
      values = new Float64Array(size);
      for (const [node, [calls, self]] of columns.shares('nodes.share', window)) values[node] = weight.name === 'count' ? calls : self;
    }
    note.textContent = window < 0 ? '' : isOfStep ? 'of the step' : 'of the whole recording: this weight is not told by step';
    const weighing = new Weighing(tree, values, counts);
    graph.show(tree, [weighing], 0);
    view.style.height = Math.min(460, Math.max(60, (weighing.maxDepth + 1) * ROW + 2)) + 'px';
  };
  choice.addEventListener('change', () => show(window));
  view.addEventListener('click', (event) => {
    const node = graph.at(event.clientX, event.clientY);
    if (node >= 0) { graph.zoomTo(node); details.textContent = words(node).join(' · '); }
  });
  view.addEventListener('mousemove', (event) => {
    const node = graph.at(event.clientX, event.clientY);
    if (node < 0) hideTooltip();
    else showTooltip(event, words(node));
  });
  view.addEventListener('mouseleave', hideTooltip);
  view.addEventListener('keydown', (event) => {
    const from = graph.selected < 0 ? graph.zoom : graph.selected;
    if (event.key === 'Enter') graph.zoomTo(from);
    else if (event.key.startsWith('Arrow')) {
      const next = graph.neighbour(from, event.key);
      if (next >= 0) { graph.selected = next; details.textContent = words(next).join(' · '); graph.draw(); }
      event.preventDefault();
    }
  });
  const refresh = () => {
    look.isDark = document.documentElement.dataset.theme === 'dark';
    look.matches = search.test === null ? null : Uint8Array.from(names, (name) => (search.test(name) ? 1 : 0));
    graph.draw();
  };
  return {element, show, refresh, graph, draw: () => graph.draw()};
}
