// ---- Memory, files, waits, GPUs; what was lost and what it cost; where it was recorded.
function memorySection(columns) {
  const element = make('div');
  const choice = make('select');
  choice.setAttribute('aria-label', 'Device');
  facts.memory.forEach((curve, i) => { choice.appendChild(make('option', '', `${curve.device} of PID ${curve.pid}`)).value = i; });
  // The highest one first.
  choice.value = facts.memory.reduce((best, curve, i, all) => (curve.peak_bytes > all[best].peak_bytes ? i : best), 0);
  const words = element.appendChild(make('p', 'muted'));
  if (facts.memory.length > 1) element.appendChild(make('p', 'tools')).appendChild(choice);
  const view = element.appendChild(make('div', 'curve'));
  const canvas = view.appendChild(make('canvas'));
  element.appendChild(make('h3', '', 'Who held it at the peak'));
  const totals = {bytes: 0};
  const table = new SortedTable('owner', [
    {key: 'name', title: 'Allocated in'}, {key: 'python', title: 'Python'},
    {key: 'bytes', title: 'Bytes', value: (row) => row.bytes, text: (row) => bytesText(row.bytes), bar: () => totals.bytes},
    {key: 'part', title: 'Of peak', value: (row) => row.bytes, text: (row) => share(row.bytes, totals.bytes)},
    {key: 'blocks', title: 'Blocks', value: (row) => row.blocks, text: (row) => count(row.blocks)},
  ], 'bytes');
  element.appendChild(table.element);
  const others = element.appendChild(make('p', 'muted'));
  let base = null;
  const draw = () => {
    const curve = facts.memory[choice.value];
    const times = columns.get(`memory${choice.value}.time`);
    const bytes = columns.get(`memory${choice.value}.bytes`);
    const [from, to] = base || [0, Math.max(facts.window_ns, times[times.length - 1] || 0)];
    const [left, bottom, height] = [76, 20, 190];
    const width = view.clientWidth;
    const context = prepare(canvas, width, height);
    const low = Math.min(0, ...[bytes.reduce((least, value) => Math.min(least, value), 0)]);
    const x = (ns) => left + (ns - from) * (width - left - 8) / (to - from);
    const y = (value) => height - bottom - (value - low) * (height - bottom - 12) / Math.max(1, curve.peak_bytes - low);
    context.fillStyle = styleOf('--muted');
    context.textAlign = 'right';
    for (let line = 0; line <= 3; ++line) {
      const value = low + (curve.peak_bytes - low) * line / 3;
      context.fillText(bytesText(Math.round(value)), left - 6, y(value) + (line === 3 ? 3 : 0));
    }
    context.textAlign = 'left';
    for (let line = 0; line < 4; ++line) context.fillText(time(from + (to - from) * line / 4), left + (width - left - 8) * line / 4, height - 8);
    context.save();
    context.beginPath();
    context.rect(left, 0, width - left, height);
    context.clip();
    context.fillStyle = '#56b4e9';
    context.beginPath();
    let level = curve.preexisting_bytes;
    context.moveTo(x(from), y(low));
    context.lineTo(x(from), y(level));
    for (let i = 0; i < times.length; ++i) {
      if (times[i] < from) { level = bytes[i]; context.lineTo(x(from), y(level)); continue; }
      context.lineTo(x(times[i]), y(level));
      level = bytes[i];
      context.lineTo(x(times[i]), y(level));
      if (times[i] > to) break;
    }
    context.lineTo(x(to), y(level));
    context.lineTo(x(to), y(low));
    context.fill();
    context.strokeStyle = context.fillStyle = '#d55e00';
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x(curve.peak_ns), y(curve.peak_bytes) + 1, 4, 0, 7);
    context.stroke();
    context.restore();
  };
  const choose = () => {
    const curve = facts.memory[choice.value];
    const names = ['name', 'python', 'blocks', 'bytes'];
    totals.bytes = curve.peak_bytes;
    words.textContent = `${curve.device} of PID ${curve.pid}: ${bytesText(curve.peak_bytes)} at the peak, ${time(curve.peak_ns)} after the begin; ` +
        `${count(curve.events)} allocations and frees.` + (curve.preexisting_bytes > 0 ? ` ${bytesText(curve.preexisting_bytes)} were there before.` : '') +
        (curve.device === 'cpu' ? ' The curve begins at 0: what was there before is not known.' : '') +
        (curve.is_whole ? '' : ' Records were lost: the curve ends there.');
    table.setRows(withTexts(columns.rows(`memory${choice.value}.owners`, names, ['name', 'python']), ['name', 'python']));
    others.textContent = curve.others_bytes > 0 ? `${bytesText(curve.others_bytes)} of ${count(curve.owners - table.all.length)} other places.` : '';
    draw();
  };
  choice.addEventListener('change', choose);
  choose();
  return {element, draw, tables: [table], refresh: () => table.show(), show: (window, extent) => { base = extent; draw(); }};
}

function numberColumn(key, title, text, bar) {
  return {key, title, value: (row) => row[key], text: (row) => (row[key] === 0 ? '' : text(row[key])), bar};
}

function filesSection(columns) {
  const names = ['name', 'kind', 'calls', 'reads', 'writes', 'errors', 'read', 'written', 'time', 'off_cpu', 'longest', 'page_ins', 'page_in_time'];
  const rows = withTexts(columns.rows('files', names, ['name', 'kind']), ['name']);
  const element = make('div');
  const totals = {time: 0};
  const table = new SortedTable('file', [
    {key: 'name', title: 'File'}, {key: 'kind', title: 'Kind'}, numberColumn('time', 'Time', time, () => totals.time),
    ...(facts.recorded.sched ? [numberColumn('off_cpu', 'Off CPU', time)] : []),
    numberColumn('read', 'Read', bytesText), numberColumn('written', 'Written', bytesText), numberColumn('calls', 'Calls', count),
    numberColumn('errors', 'Errors', count), numberColumn('longest', 'Longest', time), numberColumn('page_ins', 'Page-ins', count),
  ], 'time');
  element.appendChild(table.element);
  element.appendChild(make('h3', '', 'System calls, of the whole recording'));
  const calls = new SortedTable('call', [
    {key: 'name', title: 'System call'}, numberColumn('total', 'Time', time), numberColumn('calls', 'Calls', count),
    numberColumn('p99', '99 % below', time), numberColumn('max', 'Longest', time),
    ...(facts.recorded.sched ? [numberColumn('off_cpu', 'Off CPU', time)] : []), numberColumn('errors', 'Errors', count), numberColumn('bytes', 'Bytes', bytesText),
  ], 'total');
  calls.setRows(withTexts(columns.rows('syscalls', ['name', 'calls', 'errors', 'total', 'p99', 'max', 'off_cpu', 'bytes'], ['name']), ['name']));
  element.appendChild(calls.element);
  const show = (window) => {
    const shares = wholeOr(window, null, columns.shares('files.share', window));
    const shown = shares === null ? rows : rows.filter((row) => shares.has(row.index)).map((row) => {
      const [number, ns, read, written] = shares.get(row.index);
      return {...row, calls: number, time: ns, read, written, errors: 0, off_cpu: 0, longest: 0, page_ins: 0};
    });
    totals.time = shown.reduce((sum, row) => sum + row.time, 0);
    table.setRows(shown);
  };
  return {element, show, tables: [table, calls], refresh: () => { table.show(); calls.show(); }};
}

function waitsSection(columns) {
  const names = ['pid', 'thread', 'reason', 'place', 'waker', 'waker_place', 'count', 'blocked', 'longest'];
  const texts = ['thread', 'reason', 'place', 'waker', 'waker_place'];
  const rows = withTexts(columns.rows('waits', names, texts), texts);
  const totals = {all: 0};
  const table = new SortedTable('wait', [
    {key: 'thread', title: 'Thread'}, {key: 'reason', title: 'For'}, {key: 'place', title: 'Where'},
    numberColumn('blocked', 'Blocked', time, () => totals.all), numberColumn('count', 'Waits', count), numberColumn('longest', 'Longest', time),
    {key: 'waker', title: 'Woken by'}, {key: 'waker_place', title: 'Which was in'},
  ], 'blocked');
  const show = (window) => {
    const shares = wholeOr(window, null, columns.shares('waits.share', window));
    const shown = shares === null ? rows : rows.filter((row) => shares.has(row.index)).map((row) => {
      const [number, blocked] = shares.get(row.index);
      return {...row, count: number, blocked, longest: 0};
    });
    totals.all = shown.reduce((most, row) => Math.max(most, row.blocked), 0);
    table.setRows(shown);
  };
  return {element: table.element, show, tables: [table], refresh: () => table.show()};
}

// One device, or stream, in a window: `causes` as facts.idle has them.
function idleDevice(device, busy, idle, causes) {
  const element = make('div');
  const whole = busy + idle;
  const name = `GPU ${device.device} of PID ${device.pid}` + (device.stream === null ? '' : `, stream ${device.stream}`);
  element.appendChild(make('h3', '', busy > 0 ? `${name}: idle ${share(idle, whole)} of ${time(whole)}` : `${name}: idle ${time(idle)}`));
  const bar = element.appendChild(make('div', 'stack'));
  const part = (ns, color, words) => {
    const piece = bar.appendChild(make('i'));
    piece.style.width = (100 * ns / Math.max(1, whole)).toFixed(2) + '%';
    piece.style.background = color;
    piece.title = `${words}: ${time(ns)} (${share(ns, whole)})`;
  };
  if (busy > 0) part(busy, '#4f9d4f', 'busy');
  const list = element.appendChild(make('ul', 'causes'));
  for (const {cause, ns, gaps, longest_ns: longest, python} of causes) {
    part(ns, CAUSE_COLORS[cause] || OTHER, cause);
    const item = list.appendChild(make('li'));
    item.appendChild(make('i')).style.background = CAUSE_COLORS[cause] || OTHER;
    item.append(`${cause}: ${time(ns)}, ${share(ns, idle)} of idle, ${count(gaps)} gaps` + (longest > 0 ? `, the longest ${time(longest)}` : ''));
    if (python !== '') item.append(', mostly below ', make('code', '', python));
  }
  return element;
}

function idleSection(columns) {
  const element = make('div');
  const show = (window) => {
    const causes = facts.idle_causes;
    const shares = wholeOr(window, null, columns.shares('idle.share', window));
    element.replaceChildren(...facts.idle.map((device, i) => {
      if (shares === null) return idleDevice(device, device.busy_ns, device.idle_ns, device.causes);
      const own = causes.map((cause, number) => {
        const [ns, gaps] = shares.get(i * causes.length + number) || [0, 0];
        return {cause, ns, gaps, longest_ns: 0, python: ''};
      }).filter(({ns}) => ns > 0).sort((a, b) => b.ns - a.ns);
      return idleDevice(device, 0, own.reduce((sum, {ns}) => sum + ns, 0), own);
    }));
    element.appendChild(make('p', 'muted', 'A cause is what the thread that launched the next work did meanwhile.' +
                                           (window < 0 ? '' : ' Gaps that began in the step.')));
  };
  return {element, show};
}

function pairs(entries) {
  const list = make('dl', 'pairs');
  for (const [name, value] of entries) {
    if (value === null || value === undefined || value === '') continue;
    list.append(make('dt', '', name), make('dd', '', String(value)));
  }
  return list;
}

function sentences(list) {
  const element = make('ul');
  for (const sentence of list) element.appendChild(make('li', '', sentence));
  return element;
}

function trustSection() {
  const {summary, recorded} = facts;
  const element = make('div');
  element.appendChild(make('p', facts.lost || !facts.has_end ? 'loss' : 'no_loss',
                           !facts.has_end ? 'The recorder was ended before it could tell what it lost.'
                           : facts.lost ? 'Records were lost: times and counts may be too small.' : 'Nothing was lost.'));
  const counters = Object.entries(summary.ledger).filter(([name, value]) => value > 0 || ['records', 'begins', 'closed'].includes(name));
  element.appendChild(make('h3', '', 'Ledger'));
  element.appendChild(pairs(counters.map(([name, value]) => [name, count(value)])));
  if (summary.gpu) {
    element.appendChild(make('h3', '', 'Ledger of GPUs'));
    element.appendChild(pairs(Object.entries(summary.gpu.ledger).filter(([, value]) => value > 0).map(([name, value]) => [name, count(value)])));
  }
  const missing = [];
  const need = (is, what, option) => { if (!is) missing.push(`${what}: record with ${option}.`); };
  need(recorded.sched, 'Waits and who ended them', '--activities cpu,syscalls,sched');
  need(recorded.calls, 'Files and system calls', '--activities cpu,syscalls');
  need(recorded.stacks, 'nn.Modules and functions of Python', '--with-stack');
  need(recorded.shapes, 'Shapes of inputs', '--record-shapes');
  need(recorded.memory, 'Memory', '--profile-memory');
  need(recorded.samples, 'What threads ran between operators', '--sample 99Hz');
  need(recorded.gpu, 'What GPUs did', '--gpu agent');
  if (missing.length > 0) element.append(make('h3', '', 'Not recorded'), sentences(missing));
  if (summary.unsupported.length > 0) {
    element.append(make('h3', '', 'Could not be recorded'),
                   sentences(summary.unsupported.map((one) => `${one.feature}: ${one.reason}`)));
  }
  if (facts.left_out.length > 0) element.append(make('h3', '', 'Not on this page, but in the recording'), sentences(facts.left_out));
  element.appendChild(make('h3', '', 'What recording cost'));
  const cost = summary.cost;
  if (cost === null) {
    element.appendChild(make('p', '', 'Not known.'));
  } else {
    element.appendChild(pairs([
      ['estimated overhead', cost.estimated_overhead_percent.toFixed(2) + ' %'], ['probe hits', count(cost.probe_hits)],
      ['a hit', cost.probe_ns_per_hit > 0 ? time(cost.probe_ns_per_hit) : ''], ['jumps', cost.jumps ? count(cost.jumps) : ''],
      ['CPU time of the tracer', cost.tracer_cpu_s.toFixed(2) + ' s'], ['by', cost.basis],
    ]));
  }
  return {element};
}

function environmentSection() {
  const {summary} = facts;
  const element = make('div');
  const start = summary.window.start_unix_ns;
  element.appendChild(pairs([
    ['recorded', start === null ? '' : new Date(start / 1e6).toISOString().replace('T', ' ').replace(/\.\d+Z/, ' UTC')],
    ['window', time(facts.window_ns)], ['host', `${summary.host.name}, Linux ${summary.host.kernel}, ${summary.host.cpus} CPUs`],
    ['proftrace', `${summary.proftrace.version}, tier ${summary.proftrace.tier}, GPU ${summary.proftrace.gpu}`],
    ['its arguments', summary.proftrace.arguments.join(' ')],
    ...Object.entries(summary.metadata).map(([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)]),
  ]));
  for (const target of summary.target) {
    element.appendChild(make('h3', '', `PID ${target.pid} ${target.comm}`));
    element.appendChild(pairs([
      ['command', target.cmdline.join(' ')], ['program', target.exe], ['Python', target.python_version], ['PyTorch', target.torch_version],
      ['CUDA', target.cuda_version], ['rank', target.rank === null ? '' : `${target.rank} of ${target.world_size}`],
      ['threads', target.threads], ['followed', target.followed ? `a child of PID ${target.ppid}` : ''],
    ]));
  }
  for (const device of summary.gpu ? summary.gpu.devices : []) {
    element.appendChild(pairs([[`GPU ${device.device} of PID ${device.pid}`, `${device.name}, ${bytesText(device.memory_bytes)}`]]));
  }
  return {element};
}
