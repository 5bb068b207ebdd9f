// ---- The table of functions and the sandwich.
const ROWS_AT_ONCE = 300;
const COLUMNS = [
  {key: 'name', title: 'Function'},
  ...(before === null ? [] : [{key: 'totalChange', title: 'Change of total'}, {key: 'selfChange', title: 'Change of self'}]),
  {key: 'self', title: 'Self'}, {key: 'total', title: 'Total'}, {key: 'count', title: 'Count'},
];
let rowsShown = ROWS_AT_ONCE;

function functionSums() {
  return sumFunctions(tree, weighings(), data.frames.length);
}

// The rows that the search leaves, in order.
function sortedFunctions(sums) {
  const shown = sums[side()];
  const factor = before === null ? 0 : scale();
  const value = {
    name: (frame) => -ranks[frame],
    self: (frame) => shown.self[frame],
    total: (frame) => shown.total[frame],
    count: (frame) => shown.count[frame],
    selfChange: (frame) => Math.abs(sums[0].self[frame] - sums[1].self[frame] * factor),
    totalChange: (frame) => Math.abs(sums[0].total[frame] - sums[1].total[frame] * factor),
  }[state.sort.key];
  const sign = state.sort.isDown ? -1 : 1;
  return Array.from(data.frames.keys())
      .filter((frame) => sums.some((one) => one.total[frame] > 0 || one.count[frame] > 0))
      .filter((frame) => look.matches === null || look.matches[frame] === 1)
      .sort((a, b) => sign * (value(a) - value(b)) || ranks[a] - ranks[b]);
}

function cell(row, text, isNumber) {
  const element = row.appendChild(document.createElement('td'));
  element.textContent = text;
  if (isNumber) element.className = 'number';
  return element;
}

// Adds the columns of a comparison: what only one of the recordings has is marked, and changes are
// coloured.
function addChanges(row, button, frame, sums) {
  for (const field of ['total', 'self']) {
    const difference = change(sums[0][field][frame], sums[1][field][frame]);
    const element = cell(row, signed(difference), true);
    element.classList.add(difference > 0 ? 'more' : difference < 0 ? 'less' : 'same');
  }
  if (isSeen[0][frame] && isSeen[1][frame]) return;
  const mark = document.createElement('b');
  mark.textContent = isSeen[1][frame] ? '[only before] ' : '[new] ';
  button.prepend(mark);
}

function functionRow(frame, sums) {
  const row = document.createElement('tr');
  row.classList.toggle('chosen', frame === state.focus);
  const button = cell(row, '', false).appendChild(document.createElement('button'));
  button.type = 'button';
  button.className = 'function';
  button.textContent = data.frames[frame];
  button.title = data.frames[frame].slice(0, 1000);
  button.addEventListener('click', () => focusOn(frame));
  if (before !== null) addChanges(row, button, frame, sums);
  const shown = sums[side()];
  cell(row, `${format(shown.self[frame])} · ${percent(shown.self[frame], all())}`, true);
  cell(row, `${format(shown.total[frame])} · ${percent(shown.total[frame], all())}`, true);
  cell(row, hasCount(frame) ? shown.count[frame].toLocaleString('en-US') : '', true);
  return row;
}

function showTable() {
  $('columns').replaceChildren(...COLUMNS.map(({key, title}) => {
    const header = document.createElement('th');
    const isSorted = state.sort.key === key;
    header.setAttribute('aria-sort', !isSorted ? 'none' : state.sort.isDown ? 'descending' : 'ascending');
    const button = header.appendChild(document.createElement('button'));
    button.type = 'button';
    button.dataset.key = key;
    button.textContent = title + (!isSorted ? '' : state.sort.isDown ? ' ▾' : ' ▴');
    button.addEventListener('click', () => {
      state.sort = {key, isDown: isSorted ? !state.sort.isDown : true};
      showTable();
      remember(false);
    });
    return header;
  }));
  const sums = functionSums();
  const sorted = sortedFunctions(sums);
  $('rows').replaceChildren(...sorted.slice(0, rowsShown).map((frame) => functionRow(frame, sums)));
  $('more_rows').hidden = sorted.length <= rowsShown;
  $('more_rows').textContent = `Show more (${(sorted.length - rowsShown).toLocaleString('en-US')})`;
}

function showSandwich() {
  const frame = state.focus;
  if (frame < 0) {
    for (const graph of [callersGraph, calleesGraph]) graph.clear();
    $('focus').textContent = 'Choose a function to see who calls it and what it calls.';
    return;
  }
  const {callers, callees} = sandwich(tree, weighings(), frame, ranks);
  callersGraph.show(callers.tree, callers.weighings, side());
  calleesGraph.show(callees.tree, callees.weighings, side());
  const sums = functionSums();
  const words = [`total ${format(sums[side()].total[frame])} (${percent(sums[side()].total[frame], all())})`,
                 `self ${format(sums[side()].self[frame])}`];
  if (hasCount(frame)) words.push(`count ${sums[side()].count[frame].toLocaleString('en-US')}`);
  if (before !== null) words.push(`change of total ${signed(change(sums[0].total[frame], sums[1].total[frame]))}`);
  const name = document.createElement('b');
  name.textContent = data.frames[frame];
  $('focus').replaceChildren(name, ' ' + words.join(', '));
  callersGraph.drawNow();
  callersGraph.scrollToRoot();
}
