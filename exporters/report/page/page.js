// ---- The page: its sections, the window that is chosen, keys, and the link to what is shown.
const sections = new Map();  // by id: what the functions of sections.js give
let columns = null;
let windowSteps = [];  // the steps that have tables of their own, ascending
const state = {window: -1, isDark: false};

function addSection(id, title, help, section) {
  const outer = $('sections').appendChild(make('section'));
  outer.id = id;
  const head = outer.appendChild(make('h2', '', title));
  if (help) head.title = help;
  outer.appendChild(section.element);
  sections.set(id, section);
  const link = $('nav').appendChild(make('a', '', title));
  link.href = '#' + id;
  link.addEventListener('click', (event) => {
    event.preventDefault();
    outer.scrollIntoView();
  });
}

function each(method, ...values) {
  for (const section of sections.values()) {
    if (section[method] !== undefined) section[method](...values);
  }
}

// ---- The window.
function stepOf(window) { return windowSteps[window]; }
function barOf(step) { return Math.floor(step / (facts.steps.steps_a_bar || 1)); }

// The window of a step; of one without tables of its own, that of the nearest that has them.
function nearest(step) {
  let best = -1;
  windowSteps.forEach((one, i) => {
    if (best < 0 || Math.abs(one - step) < Math.abs(windowSteps[best] - step)) best = i;
  });
  return best;
}

function extentOf(window) {
  return window < 0 ? null : [columns.get('windows.start')[window], columns.get('windows.end')[window]];
}

function choose(window, isSilent) {
  state.window = window;
  const {bars} = sections.get('steps');
  const extent = extentOf(window);
  if (bars !== null) {
    bars.chosen = window < 0 ? -1 : barOf(stepOf(window));
    bars.focused = bars.chosen;
  }
  $('window_bar').hidden = facts.steps.count === 0 || !facts.steps.are_steps;
  const name = window < 0 ? 'Whole recording' : `Step ${facts.steps.first_number + stepOf(window)}`;
  $('window_text').textContent = window < 0 ? `${name}: ${time(facts.window_ns)}` : `${name}: ${time(extent[1] - extent[0])}`;
  $('whole').disabled = window < 0;
  each('show', window, extent);
  if (timelineOf() !== undefined) timelineOf().setBase(extent, window);
  if (!isSilent) remember();
}

function chooseStep(step) {
  if (windowSteps.length > 0) choose(nearest(step));
}

function move(by) {
  if (windowSteps.length === 0) return;
  const next = state.window < 0 ? (by > 0 ? 0 : windowSteps.length - 1) : state.window + by;
  if (next >= 0 && next < windowSteps.length) choose(next);
}

// The window of the step whose time comes at that place in the order of times: 1 = the slowest.
function ofRank(rank) {
  const {bars} = sections.get('steps');
  if (bars === null || windowSteps.length === 0) return;
  const order = Array.from(bars.total.keys()).sort((a, b) => bars.total[a] - bars.total[b]);
  chooseStep(order[Math.round(rank * (order.length - 1))] * bars.stepsABar);
}

const timelineOf = () => (sections.has('timeline') ? sections.get('timeline').timeline : undefined);

// ---- The link: #step=12&view=1000-2000&q=conv&dark=1&op=total-
let isRestoring = false;
function remember() {
  if (isRestoring) return;
  const words = new URLSearchParams();
  if (state.window >= 0) words.set('step', facts.steps.first_number + stepOf(state.window));
  const timeline = timelineOf();
  if (timeline !== undefined) {
    const [from, to] = timeline.base || timeline.whole;
    if (Math.abs(timeline.from - from) > 1 || Math.abs(timeline.to - to) > 1) words.set('view', `${Math.round(timeline.from)}~${Math.round(timeline.to)}`);
  }
  if (search.query !== '') words.set('q', search.query);
  if (state.isDark) words.set('dark', 1);
  for (const {tables} of sections.values()) {
    for (const table of tables || []) {
      if (table.key !== table.firstKey || !table.isDown) words.set('sort_' + table.name, table.key + (table.isDown ? '' : '~'));
    }
  }
  history.replaceState(null, '', words.size > 0 ? '#' + words : location.pathname + location.search);
}

function restore() {
  isRestoring = true;
  const words = new URLSearchParams(location.hash.slice(1));
  for (const {tables} of sections.values()) {
    for (const table of tables || []) {
      const sort = words.get('sort_' + table.name);
      if (sort !== null) table.sortBy(sort.replace('~', ''), !sort.endsWith('~'));
    }
  }
  setTheme(words.has('dark') ? words.get('dark') === '1' : matchMedia('(prefers-color-scheme: dark)').matches);
  $('search').value = words.get('q') || '';
  find($('search').value);
  const step = Number(words.get('step'));
  choose(words.has('step') && Number.isFinite(step) && windowSteps.length > 0 ? nearest(step - facts.steps.first_number) : -1, true);
  const view = (words.get('view') || '').split('~').map(Number);
  if (view.length === 2 && view.every(Number.isFinite) && view[0] < view[1] && timelineOf() !== undefined) timelineOf().show(...view);
  isRestoring = false;
}

function setTheme(isDark) {
  state.isDark = isDark;
  document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
  $('theme').setAttribute('aria-pressed', String(isDark));
  inkOf.clear();
  redraw();
  each('refresh');
}

function redraw() {
  each('draw');
  const steps = sections.get('steps');
  if (steps !== undefined && steps.bars) steps.bars.draw();
  if (timelineOf() !== undefined) timelineOf().draw();
}

function find(query) {
  search.set(query);
  each('refresh');
  if (timelineOf() !== undefined) timelineOf().draw();
  let found = 0;
  for (const {tables} of sections.values()) {
    for (const table of tables || []) found += table.rows().length;
  }
  $('matched').textContent = query === '' ? '' : `${count(found)} rows`;
}

// ---- Keys.
const KEYS = [
  ['/', 'search names in all tables, the timeline and the flame graph'], ['n, p', 'next step, step before'],
  ['s, m', 'the slowest step; the one of median time'], ['Esc', 'empty the search, then the whole recording'],
  ['← → + - 0', 'in the timeline: move, zoom, all'], ['Ctrl or Shift and wheel', 'in the timeline: zoom'],
  ['d', 'light or dark'], ['?', 'this list'],
];

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = ['INPUT', 'SELECT', 'TEXTAREA'].includes(document.activeElement.tagName);
  if (event.key === 'Escape') {
    if ($('keys').open) return; // it closes the keys alone
    if (search.query !== '') {
      $('search').value = '';
      find('');
      remember();
    } else if (state.window >= 0) {
      choose(-1);
    }
    $('search').blur();
    return;
  }
  if (isTyping) return;
  const action = {
    '/': () => $('search').focus(), n: () => move(1), p: () => move(-1), s: () => ofRank(1), m: () => ofRank(0.5),
    d: () => { setTheme(!state.isDark); remember(); }, '?': () => $('keys').showModal(),
  }[event.key];
  if (action === undefined) return;
  event.preventDefault();
  action();
}

// Changes come one after the other while the timeline is moved: the link follows a little later.
let asked = 0;
function rememberSoon() {
  clearTimeout(asked);
  asked = setTimeout(remember, 250);
}

function showHead() {
  document.title = `${facts.title || 'proftrace'} · report`;
  $('title').textContent = facts.title || 'proftrace report';
  $('subtitle').textContent = `${facts.subtitle} · ${time(facts.window_ns)} recorded`;
  for (const [key, words] of KEYS) $('key_list').append(make('dt', '', key), make('dd', '', words));
  addSection('why', 'Why', 'What makes the steps take the time that they take', verdictSection());
}

function timelineSection() {
  const element = make('div');
  if (facts.lanes.length === 0) {
    element.appendChild(make('p', 'muted', 'Nothing was recorded that has a place in time.'));
    return {element};
  }
  const timeline = new Timeline(columns, rememberSoon);
  element.appendChild(timeline.element);
  return {element, timeline};
}

function addSections() {
  addSection('steps', 'Steps', '', stepsSection(columns, chooseStep));
  addSection('timeline', 'Timeline', '', timelineSection());
  if (columns.has('modules.path')) addSection('modules', 'Modules', 'nn.Modules by the path of their attributes', modulesSection(columns));
  addSection('operators', 'Operators', '', operatorsSection(columns));
  if (columns.has('nodes.parent')) addSection('flame', 'Flame graph', '', flameSection(columns));
  if (facts.memory.length > 0) addSection('memory', 'Memory', '', memorySection(columns));
  if (columns.has('files.name') || columns.has('syscalls.name')) addSection('files', 'I/O', '', filesSection(columns));
  if (columns.has('waits.thread')) addSection('waits', 'Waits', 'Time off the CPU until somebody ended the wait', waitsSection(columns));
  if (facts.idle.length > 0) addSection('gpu', 'GPU idle', '', idleSection(columns));
  addSection('trust', 'Lost, left out, cost', '', trustSection());
  addSection('environment', 'Environment', '', environmentSection());
  for (const {tables} of sections.values()) {
    for (const table of tables || []) table.firstKey = table.key;
  }
}

function listen() {
  document.addEventListener('keydown', onKey);
  window.addEventListener('resize', redraw);
  window.addEventListener('hashchange', restore);
  // Paper is light.
  let isDark = false;
  window.addEventListener('beforeprint', () => {
    isDark = state.isDark;
    setTheme(false);
  });
  window.addEventListener('afterprint', () => setTheme(isDark));
  $('search').addEventListener('input', () => { find($('search').value); rememberSoon(); });
  $('theme').addEventListener('click', () => { setTheme(!state.isDark); remember(); });
  $('help').addEventListener('click', () => $('keys').showModal());
  $('whole').addEventListener('click', () => choose(-1));
  $('step_before').addEventListener('click', () => move(-1));
  $('step_after').addEventListener('click', () => move(1));
  $('slowest').addEventListener('click', () => ofRank(1));
  $('typical').addEventListener('click', () => ofRank(0.5));
}

async function start() {
  showHead();
  columns = new Columns(facts.columns, await inflate($('columns').textContent));
  windowSteps = Array.from(columns.get('windows.step'));
  addSections();
  listen();
  restore();
  // For scripts and tests.
  window.report = {
    facts, columns, state, sections, choose, windowSteps, colors: {PART_COLORS, CLASSES, CAUSE_COLORS, shade, ink}, readyMs: performance.now(),
  };
}

setTheme(matchMedia('(prefers-color-scheme: dark)').matches);
start().catch((error) => {
  window.tellTooOld(`cannot show the data (${error.message})`);
  throw error;
});
