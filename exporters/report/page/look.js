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

// Fourteen colours that people with any colour vision tell apart: they were searched for, and a test computes how far apart they are.
// By StepPart, as C++ numbers them; facts.steps.part_texts has their words.
const PART_COLORS = [
  '#f0c2a3', '#353d44', '#0000ff', '#66067f', '#830a07', '#ab897b', '#7e5d54', '#9390a6', '#3179fe', '#6b6382', '#5b8609',
  '#86bc04', '#0dc5fe', '#d0c9cf',
];
const [DATA, COLLECTION, COLLECTIVE, NO_CPU, FAULTS, , LOCK, EVENT, IO, OTHER, SYNCHRONIZING, OPERATORS, PYTHON, BETWEEN] = PART_COLORS;

// By RowClass, as timeline.cc numbers them. Rows of one lane have different colours.
const CLASSES = [
  ['operator', OPERATORS], ['autograd', EVENT], ['annotation', BETWEEN], ['CUDA call', FAULTS], ['garbage collection', COLLECTION],
  ['module', PYTHON], ['collective', COLLECTIVE], ['kernel', OPERATORS], ['copy', DATA], ['GPU, other', BETWEEN],
  ['system call', PYTHON], ['page fault', FAULTS], ['has no CPU', NO_CPU], ['waits for a lock', LOCK], ['waits for I/O', IO],
  ['waits for another thread', EVENT], ['sleeps or polls', BETWEEN], ['waits otherwise', OTHER], ['part of a step', PYTHON],
  ['GPU idle', NO_CPU],
];
const CLASS_PART = 18;
const CLASS_IDLE = 19;

const CAUSE_COLORS = {
  'operator dispatch': OPERATORS, 'synchronizing call': SYNCHRONIZING, 'CUDA call': FAULTS, 'DataLoader': DATA,
  'outside of operators': EVENT, 'launched, not begun': COLLECTION, 'not known': BETWEEN, 'I/O': IO, 'lock': LOCK,
  'other system calls and waits': OTHER, 'run queue': NO_CPU, 'Python': PYTHON,
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
    return Math.max(0, Math.min(255, Math.round(value + change * (change > 0 ? (255 - value) * 0.07 : value * 0.06))));
  };
  return `rgb(${part(1)} ${part(3)} ${part(5)})`;
}

// Black or white, whichever can be read better on the colour (WCAG's contrast).
const inkOf = new Map();
function ink(color) {
  let known = inkOf.get(color);
  if (known === undefined) {
    const parts = color[0] === '#' ? [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16)) : color.match(/\d+/g).map(Number);
    const [r, g, b] = parts.map((part) => (part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    known = 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? '#000000' : '#ffffff';
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
