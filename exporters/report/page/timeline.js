// ---- The timeline: rows of lanes, drawn for a stretch of time that is zoomed and moved.
const LANE_ROW = 15;  // CSS pixels
const LANE_GAP = 5;
const KIND_WORDS = {
  parts: '', modules: 'nn.Modules', rows: 'operators', kernel: 'off the CPU, system calls, faults', works: '', device: '', idle: '',
};

class Timeline {
  constructor(columns, onView) {
    this.onView = onView;
    this.columns = columns;
    this.starts = columns.get('rows.start');
    this.durations = columns.get('rows.duration');
    this.labels = columns.get('rows.label');
    this.depths = columns.get('rows.depth');
    this.wakers = columns.get('rows.waker');
    const texts = columns.get('labels.text');
    this.labelTexts = Array.from(texts, (text) => columns.texts[text]);
    this.labelClasses = columns.get('labels.class');
    this.labelColors = this.labelTexts.map((text, i) => this.colorOf(text, this.labelClasses[i]));
    let first = 0;
    this.lanes = facts.lanes.map((lane) => this.newLane(lane, first, (first += lane.rows)));
    this.whole = this.extent();
    [this.from, this.to] = this.whole;
    this.selected = -1;
    this.makeElements();
    this.hideEmptyLanes();
  }

  // A part of a step has words for people.
  shownText(label) {
    const part = this.labelClasses[label] === CLASS_PART ? facts.steps.parts.indexOf(this.labelTexts[label]) : -1;
    return part < 0 ? this.labelTexts[label] : facts.steps.part_texts[part];
  }

  colorOf(text, rowClass) {
    if (rowClass === CLASS_PART) {
      const part = facts.steps.parts.indexOf(text);
      return part < 0 ? OTHER : PART_COLORS[part];
    }
    if (rowClass === CLASS_IDLE) return CAUSE_COLORS[text] || OTHER;
    const hex = CLASSES[rowClass][1];
    return rowClass <= 9 ? shade(hex, text) : hex;
  }

  // Works overlap: they get rows of their own as far as needed.
  spread(first, last) {
    const ends = [];
    for (let i = first; i < last; ++i) {
      let row = ends.findIndex((end) => end <= this.starts[i]);
      if (row < 0) row = ends.length < 8 ? ends.length : 7;
      ends[row] = this.starts[i] + this.durations[i];
      this.depths[i] = row;
    }
  }

  newLane(lane, first, last) {
    if (lane.kind === 'works') this.spread(first, last);
    let depth = 0;
    for (let i = first; i < last; ++i) depth = Math.max(depth, this.depths[i]);
    const isMinor = lane.role === '' && lane.thread !== null;
    const words = KIND_WORDS[lane.kind];
    const title = [lane.role, this.columns.texts[lane.title], words].filter((text) => text !== '').join(' · ');
    return {...lane, title, first, last, rowsHigh: depth + 1, isFolded: isMinor && depth > 0};
  }

  extent() {
    let from = Infinity;
    let to = -Infinity;
    for (let i = 0; i < this.starts.length; ++i) {
      from = Math.min(from, this.starts[i]);
      to = Math.max(to, this.starts[i] + this.durations[i]);
    }
    from = Math.max(0, Number.isFinite(from) ? from : 0);
    to = Number.isFinite(to) ? to : facts.window_ns;
    return [from, Math.max(to, from + 1000)];
  }

  makeElements() {
    this.element = make('div', 'timeline');
    const tools = this.element.appendChild(make('p', 'tools'));
    tools.append(button('+', 'Zoom in (+)', () => this.zoom(0.5)), button('−', 'Zoom out (-)', () => this.zoom(2)),
                 button('all', 'The whole window (0)', () => this.reset()));
    this.range = tools.appendChild(make('span', 'muted'));
    this.view = this.element.appendChild(make('div', 'timeline_view'));
    this.view.tabIndex = 0;
    this.view.setAttribute('aria-label', 'Timeline: arrow keys to move, + and - to zoom, drag to move, double click a row to zoom to it');
    this.spacer = this.view.appendChild(make('div'));
    this.canvas = this.spacer.appendChild(make('canvas'));
    this.details = this.element.appendChild(make('p', 'details', 'Click a row to see it here; double click to zoom to it.'));
    this.details.setAttribute('aria-live', 'polite');
    this.left = this.element.appendChild(make('p', 'muted'));
    const used = [...new Set(this.labelClasses)].filter((one) => one !== CLASS_PART && one !== CLASS_IDLE).sort((a, b) => a - b);
    this.element.appendChild(legend(used.map((one) => CLASSES[one])));
    this.view.addEventListener('scroll', () => this.draw());
    this.view.addEventListener('mousemove', (event) => this.hover(event));
    this.view.addEventListener('mouseleave', hideTooltip);
    this.view.addEventListener('dblclick', (event) => this.zoomToRow(this.at(event)));
    this.view.addEventListener('wheel', (event) => this.wheel(event), {passive: false});
    this.view.addEventListener('keydown', (event) => this.key(event));
    this.view.addEventListener('pointerdown', (event) => this.press(event));
  }

  // A drag moves; a press without one chooses.
  press(event) {
    if (event.button !== 0) return;
    const [from, to, startX] = [this.from, this.to, event.clientX];
    let hasMoved = false;
    const move = (next) => {
      if (Math.abs(next.clientX - startX) > 4) hasMoved = true;
      if (!hasMoved) return;
      const ns = (startX - next.clientX) * (to - from) / this.width();
      this.show(from + ns, to + ns);
    };
    const end = () => {
      window.removeEventListener('pointermove', move);
      window.removeEventListener('pointerup', end);
      window.removeEventListener('pointercancel', end);
      if (!hasMoved) this.click(event);
    };
    window.addEventListener('pointermove', move);
    window.addEventListener('pointerup', end);
    window.addEventListener('pointercancel', end);
  }

  click(event) {
    const lane = this.laneTitleAt(event);
    if (lane !== null) {
      lane.isFolded = !lane.isFolded && lane.rowsHigh > 1;
      this.draw();
      return;
    }
    this.selected = this.at(event);
    this.details.textContent = this.selected < 0 ? '' : this.words(this.selected).join(' · ');
    this.draw();
  }

  wheel(event) {
    if (!event.ctrlKey && !event.shiftKey && !event.altKey) return;
    event.preventDefault();
    const middle = this.timeAt(event);
    this.zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, middle);
  }

  key(event) {
    const step = (this.to - this.from) * 0.2;
    const moves = {
      ArrowLeft: () => this.show(this.from - step, this.to - step), ArrowRight: () => this.show(this.from + step, this.to + step),
      '+': () => this.zoom(0.5), '=': () => this.zoom(0.5), '-': () => this.zoom(2), 0: () => this.reset(),
    };
    if (moves[event.key] === undefined || event.ctrlKey || event.metaKey) return;
    moves[event.key]();
    event.preventDefault();
  }

  reset() { this.show(...(this.base || this.whole)); }

  zoom(factor, middle) {
    const at = middle === undefined ? (this.from + this.to) / 2 : middle;
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  zoomToRow(row) {
    if (row < 0) return;
    const size = Math.max(this.durations[row], 100);
    this.show(this.starts[row] - size * 0.05, this.starts[row] + size * 1.05);
  }

  // The window of the page, which `all` shows again.
  setBase(base, window) {
    this.base = base;
    this.hideEmptyLanes();
    this.left.textContent = this.leftOut(window);
    this.show(...(base || this.whole));
  }

  show(from, to) {
    const size = Math.max(50, Math.min(to - from, 1.1 * (this.whole[1] - this.whole[0])));
    const middle = Math.max(this.whole[0], Math.min(this.whole[1], (from + to) / 2));
    this.from = middle - size / 2;
    this.to = middle + size / 2;
    this.draw();
    this.onView();
  }

  // What of the window is too short to be on the page.
  leftOut(window) {
    const words = facts.detail.map(({what, whole_ns: whole, column}) => [what, window < 0 ? whole : this.columns.get(column)[window]])
        .filter(([, least]) => least > 0).map(([what, least]) => `${what} below ${time(least)}`);
    return words.length > 0 ? `Not drawn: ${words.join(', ')}. proftrace export --format perfetto has all.` : '';
  }

  gutter() { return 4; }
  width() { return Math.max(10, this.view.clientWidth - this.gutter() - 2); }
  x(ns) { return this.gutter() + (ns - this.from) * this.width() / (this.to - this.from); }
  timeAt(event) {
    const x = event.clientX - this.canvas.getBoundingClientRect().left - this.gutter();
    return this.from + x * (this.to - this.from) / this.width();
  }

  draw() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => this.drawNow());
  }

  // Lanes that have nothing in the window of the page take no room.
  hideEmptyLanes() {
    const [from, to] = this.base || this.whole;
    for (const lane of this.lanes) {
      lane.isHidden = true;
      for (let i = lane.first; lane.isHidden && i < lane.last && this.starts[i] < to; ++i) {
        lane.isHidden = this.starts[i] + this.durations[i] <= from;
      }
    }
    this.shownLanes = this.lanes.filter((lane) => !lane.isHidden);
  }

  place() {
    let y = 20;
    for (const lane of this.shownLanes) {
      lane.top = y;
      lane.height = 15 + (lane.isFolded ? 1 : lane.rowsHigh) * LANE_ROW;
      y += lane.height + LANE_GAP;
    }
    return y;
  }

  drawNow() {
    this.isAsked = false;
    const width = this.view.clientWidth;
    if (width === 0) return;
    const whole = this.place();
    this.view.style.height = Math.min(whole + 2, Math.max(260, Math.min(620, window.innerHeight * 0.72))) + 'px';
    const height = this.view.clientHeight;
    this.spacer.style.height = whole + 'px';
    const context = prepare(this.canvas, width, height);
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    this.range.textContent = `${time(this.to - this.from)}, from ${(this.from / 1e6).toFixed(3)} ms of the recording on`;
    this.look = {text: styleOf('--text'), muted: styleOf('--muted'), line: styleOf('--line'), background: styleOf('--background')};
    const top = this.view.scrollTop;
    for (const lane of this.shownLanes) {
      if (lane.top + lane.height < top || lane.top > top + height) continue;
      this.drawLane(context, lane, lane.top - top);
    }
    this.drawAxis(context, width, height);
    if (this.selected >= 0) this.drawWaker(context, top);
  }

  drawAxis(context, width, height) {
    context.fillStyle = this.look.background;
    context.fillRect(0, 0, width, 18);
    const ideal = (this.to - this.from) / Math.max(2, width / 110);
    const power = 10 ** Math.floor(Math.log10(ideal));
    const tick = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= ideal);
    context.fillStyle = this.look.muted;
    context.strokeStyle = this.look.line;
    context.globalAlpha = 0.5;
    context.beginPath();
    const zero = this.base ? this.base[0] : 0;
    for (let ns = zero + Math.ceil((this.from - zero) / tick) * tick; ns < this.to; ns += tick) {
      const x = Math.round(this.x(ns)) + 0.5;
      context.moveTo(x, 14);
      context.lineTo(x, height);
    }
    context.stroke();
    context.globalAlpha = 1;
    // Times are since the begin of the page's window, as exact as the ticks.
    const unit = tick >= 1e9 ? [1e9, ' s'] : tick >= 1e6 ? [1e6, ' ms'] : tick >= 1e3 ? [1e3, ' µs'] : [1, ' ns'];
    for (let ns = zero + Math.ceil((this.from - zero) / tick) * tick; ns < this.to; ns += tick) {
      context.fillText(Math.round((ns - zero) / unit[0]) + unit[1], this.x(ns) + 3, 9);
    }
  }

  drawLane(context, lane, y) {
    context.fillStyle = this.look.muted;
    const mark = lane.rowsHigh > 1 ? (lane.isFolded ? '▸ ' : '▾ ') : '';
    context.fillText(mark + lane.title + (lane.pid ? ` · PID ${lane.pid}` : ''), this.gutter(), y + 7);
    const scale = this.width() / (this.to - this.from);
    const lastX = new Float64Array(lane.rowsHigh).fill(-1);
    const {starts, durations, labels, depths} = this;
    for (let i = lane.first; i < lane.last && starts[i] < this.to; ++i) {
      const depth = depths[i];
      if (starts[i] + durations[i] < this.from || (lane.isFolded && depth > 0)) continue;
      const left = Math.max((starts[i] - this.from) * scale, -2);
      const right = Math.min((starts[i] + durations[i] - this.from) * scale, this.width() + 2);
      if (right < lastX[depth] + 0.4) continue;  // it would be drawn over what is there
      lastX[depth] = Math.max(right, left + 0.7);
      this.drawRow(context, i, this.gutter() + left, y + 15 + depth * LANE_ROW, right - left, labels[i]);
    }
  }

  drawRow(context, i, x, y, width, label) {
    const isMatch = search.test === null || search.test(this.labelTexts[label]);
    context.globalAlpha = isMatch ? 1 : 0.22;
    context.fillStyle = this.labelColors[label];
    context.fillRect(x, y, Math.max(width - (width > 3 ? 0.6 : 0), 0.7), LANE_ROW - 1);
    context.globalAlpha = 1;
    if (i === this.selected) {
      context.strokeStyle = this.look.text;
      context.lineWidth = 2;
      context.strokeRect(x, y, Math.max(width, 1), LANE_ROW - 1);
    }
    if (width < 26 || !isMatch) return;
    const text = this.shownText(label);
    const most = Math.floor((width - 5) / 5.6);
    if (most < 3) return;
    context.fillStyle = ink(this.labelColors[label]);
    context.fillText(text.length > most ? text.slice(0, most - 1) + '…' : text, Math.max(x, 0) + 3, y + 7);
  }

  // An arrow from the thread that ended a wait to its end.
  drawWaker(context, top) {
    const row = this.selected;
    const waker = this.wakers[row] - 1;
    if (waker < 0) return;
    const lane = this.shownLanes.find((one) => one.first <= row && row < one.last);
    const from = this.shownLanes.find((one) => one.thread === waker && one.kind === 'rows') || this.shownLanes.find((one) => one.thread === waker);
    if (from === undefined || lane === undefined || from === lane) return;
    const x = this.x(this.starts[row] + this.durations[row]);
    const [y, end] = [from.top - top + 22, lane.top - top + 22];
    context.strokeStyle = context.fillStyle = this.look.text;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x, end);
    context.stroke();
    const turn = end > y ? -7 : 7;
    context.beginPath();
    context.moveTo(x, end);
    context.lineTo(x - 4, end + turn);
    context.lineTo(x + 4, end + turn);
    context.fill();
  }

  words(row) {
    const label = this.labels[row];
    const isPart = this.labelClasses[label] === CLASS_PART;
    const words = [this.shownText(label), `${time(this.durations[row])}, from ${time(this.starts[row])} on`];
    if (!isPart) words.push(CLASSES[this.labelClasses[label]][0]);
    const waker = this.wakers[row] - 1;
    if (waker >= 0) {
      const lane = this.lanes.find((one) => one.thread === waker);
      words.push('ended by ' + (lane === undefined ? 'a thread without rows here' : lane.title));
    }
    return words;
  }

  hover(event) {
    if (event.buttons !== 0) return;
    const row = this.at(event);
    if (row < 0) hideTooltip();
    else showTooltip(event, this.words(row));
  }

  laneTitleAt(event) {
    const y = event.clientY - this.canvas.getBoundingClientRect().top + this.view.scrollTop;
    return this.shownLanes.find((lane) => y >= lane.top && y < lane.top + 15) || null;
  }

  // The row under the mouse, or -1.
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const y = event.clientY - box.top + this.view.scrollTop;
    if (event.clientY - box.top < 18) return -1;
    const lane = this.shownLanes.find((one) => y >= one.top + 15 && y < one.top + one.height);
    if (lane === undefined) return -1;
    const depth = Math.floor((y - lane.top - 15) / LANE_ROW);
    const ns = this.timeAt(event);
    const near = 1.2 * (this.to - this.from) / this.width();
    let best = -1;
    for (let i = lane.first; i < lane.last && this.starts[i] <= ns + near; ++i) {
      if (this.depths[i] === depth && this.starts[i] + this.durations[i] >= ns - near) best = i;
    }
    return best;
  }

  // For scripts and tests: what is drawn of a lane.
  rowRects() {
    this.drawNow();
    const box = this.canvas.getBoundingClientRect();
    const rects = [];
    for (const lane of this.shownLanes) {
      for (let i = lane.first; i < lane.last; ++i) {
        if (this.starts[i] > this.to || this.starts[i] + this.durations[i] < this.from) continue;
        const left = Math.max(this.x(this.starts[i]), this.gutter());
        const right = Math.min(this.x(this.starts[i] + this.durations[i]), this.gutter() + this.width());
        rects.push({name: this.labelTexts[this.labels[i]], lane: lane.title, x: box.left + left, width: right - left,
                    y: box.top + lane.top + 15 + this.depths[i] * LANE_ROW - this.view.scrollTop, height: LANE_ROW});
      }
    }
    return rects;
  }
}
