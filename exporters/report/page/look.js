// ---- How the page looks: elements, numbers as text, colours. Names are only ever set as text.
const $ = (id) => document.getElementById(id);

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function button(text, title, onClick) {
  const element = make('button', '', text);
  element.type = 'button';
  element.title = title;
  element.addEventListener('click', onClick);
  return element;
}

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

function time(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return digits(ns / 1e9) + ' s';
  if (size >= 1e6) return digits(ns / 1e6) + ' ms';
  if (size >= 1e3) return digits(ns / 1e3) + ' µs';
  return Math.round(ns) + ' ns';
}

function bytesText(value) { return formatValue(value, 'bytes'); }
function count(value) { return value.toLocaleString('en-US', {maximumFractionDigits: 0}); }
function share(part, whole) { return whole > 0 ? (100 * part / whole).toFixed(1) + ' %' : ''; }

// Colours that people with any colour vision tell apart (Okabe and Ito's, and Tol's muted ones).
// By StepPart, as C++ numbers them: name, words, colour.
const PARTS = [
  ['waits for data', '#e69f00'], ['garbage collection', '#999933'], ['waits in a collective', '#cc79a7'],
  ['has no CPU', '#d55e00'], ['page faults', '#882255'], ['waits for a lock', '#aa4499'],
  ['waits for another thread', '#ddcc77'], ['file and network I/O', '#0072b2'], ['other waits and calls', '#8c8c8c'],
  ['waits for the GPU', '#332288'], ['operators', '#009e73'], ['Python and other code', '#56b4e9'],
  ['between steps', '#c4c4c4'],
];

// By RowClass, as timeline.cc numbers them.
const CLASSES = [
  ['operator', '#3aa88a'], ['autograd', '#b5a642'], ['annotation', '#9fb8cc'], ['CUDA call', '#b56576'],
  ['garbage collection', '#999933'], ['module', '#7fb3d5'], ['collective', '#cc79a7'], ['kernel', '#4f9d4f'],
  ['copy', '#e69f00'], ['GPU, other', '#8c8c8c'], ['system call', '#88a0c8'], ['page fault', '#882255'],
  ['has no CPU', '#d55e00'], ['waits for a lock', '#aa4499'], ['waits for I/O', '#0072b2'],
  ['waits for another thread', '#ddcc77'], ['sleeps or polls', '#c4c4c4'], ['waits otherwise', '#8c8c8c'],
  ['part of a step', '#56b4e9'], ['GPU idle', '#d55e00'],
];
const CLASS_PART = 18;
const CLASS_IDLE = 19;

const CAUSE_COLORS = {
  'operator dispatch': '#009e73', 'synchronizing call': '#332288', 'CUDA call': '#b56576', 'DataLoader': '#e69f00',
  'outside of operators': '#56b4e9', 'launched, not begun': '#999933', 'not known': '#c4c4c4', 'I/O': '#0072b2',
  'lock': '#aa4499', 'other system calls and waits': '#8c8c8c', 'run queue': '#d55e00', 'Python': '#7fb3d5',
};

function hashOf(text) {
  let hash = 0;
  for (let i = 0; i < Math.min(text.length, 200); ++i) hash = (hash * 31 + text.charCodeAt(i)) >>> 0;
  return hash;
}

// A colour, lighter or darker by the name, so that neighbours are told apart.
function shade(hex, text) {
  const change = (hashOf(text) >>> 4) % 5 - 2;
  const part = (at) => {
    const value = parseInt(hex.slice(at, at + 2), 16);
    return Math.max(0, Math.min(255, Math.round(value + change * (change > 0 ? (255 - value) * 0.14 : value * 0.11))));
  };
  return `rgb(${part(1)} ${part(3)} ${part(5)})`;
}

// Whether dark letters can be read on the colour.
const inkOf = new Map();
function ink(color) {
  let known = inkOf.get(color);
  if (known === undefined) {
    const [r, g, b] = color[0] === '#' ? [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16))
                                       : color.match(/\d+/g).map(Number);
    known = 0.3 * r + 0.59 * g + 0.11 * b > 118 ? '#111318' : '#ffffff';
    inkOf.set(color, known);
  }
  return known;
}

function styleOf(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

// A canvas as sharp as the screen; returns its context, in CSS pixels.
function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.width = width + 'px';
  canvas.style.height = height + 'px';
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = '12px system-ui, "DejaVu Sans", sans-serif';
  context.textBaseline = 'middle';
  return context;
}

function showTooltip(event, lines) {
  const tooltip = $('tooltip');
  tooltip.replaceChildren(...lines.map((line, i) => make('div', i === 0 ? 'strong' : '', line)));
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
  const below = event.clientY + 18;
  tooltip.style.left = Math.max(4, left) + 'px';
  tooltip.style.top = (below + box.height > window.innerHeight ? event.clientY - box.height - 10 : below) + 'px';
}

function hideTooltip() { $('tooltip').hidden = true; }

function legend(entries) {
  const list = make('p', 'legend');
  for (const [words, color] of entries) {
    const entry = list.appendChild(make('span'));
    entry.appendChild(make('i')).style.background = color;
    entry.append(words);
  }
  return list;
}
