// ---- Steps as bars, stacked by what their time goes to.
class StepBars {
  constructor(columns, onChoose) {
    this.columns = columns;
    this.start = columns.get('steps.start');
    this.end = columns.get('steps.end');
    this.stepsABar = facts.steps.steps_a_bar || 1;
    this.parts = [];
    PART_COLORS.forEach((color, part) => {
      if (!columns.has('steps.part' + part)) return;
      this.parts.push({part, words: facts.steps.part_texts[part], color, ns: columns.get('steps.part' + part)});
    });
    // Waits stand on top, where they are seen first.
    this.parts.sort((a, b) => b.part - a.part);
    this.total = Float64Array.from(this.start, (_, i) => this.parts.reduce((sum, one) => sum + one.ns[i], 0));
    this.longest = this.total.reduce((most, ns) => Math.max(most, ns), 0);
    // A few bars that are far longer than the usual one would leave no room for the others: they are cut.
    this.most = Math.min(this.longest, 4 * (facts.steps.median_ns || this.longest)) || 1;
    this.onChoose = onChoose;
    this.chosen = -1;  // a bar
    this.focused = -1;
    this.view = make('div', 'bars');
    this.view.tabIndex = 0;
    this.view.setAttribute('role', 'slider');
    this.view.setAttribute('aria-label', 'Steps: arrow keys to move, Enter to choose');
    this.canvas = this.view.appendChild(make('canvas'));
    this.view.addEventListener('mousemove', (event) => this.hover(event));
    this.view.addEventListener('mouseleave', hideTooltip);
    this.view.addEventListener('click', (event) => {
      const bar = this.barAt(event);
      if (bar >= 0) this.onChoose(bar * this.stepsABar);
    });
    this.view.addEventListener('keydown', (event) => this.key(event));
  }

  number(bar) { return (facts.steps.first_number || 0) + bar * this.stepsABar; }

  // Where there are more bars than pixels, a column of pixels shows its longest bar.
  layout() {
    const left = 62;
    const width = Math.max(50, this.view.clientWidth - left - 6);
    const bars = this.start.length;
    const columns = Math.min(bars, Math.floor(width));
    const pixel = Math.min(width / columns, 40);
    const shown = [];
    for (let c = 0; c < columns; ++c) {
      let best = Math.floor(c * bars / columns);
      for (let bar = best; bar < Math.floor((c + 1) * bars / columns); ++bar) {
        if (best === this.chosen) break;
        if (bar === this.chosen || this.total[bar] > this.total[best]) best = bar;
      }
      shown.push(best);
    }
    return {left, pixel, shown, height: 170};
  }

  draw() {
    const {left, pixel, shown, height} = this.layout();
    this.placed = {left, pixel, shown};
    const context = prepare(this.canvas, this.view.clientWidth, height + 22);
    const {most} = this;
    context.fillStyle = styleOf('--muted');
    context.strokeStyle = styleOf('--line');
    for (let line = 0; line <= 3; ++line) {
      const y = height - (height - 12) * line / 3;
      context.textAlign = 'right';
      context.fillText(time(most * line / 3), left - 6, y - (line === 3 ? -2 : 2));
      context.beginPath();
      context.moveTo(left, Math.round(y) - 0.5);
      context.lineTo(left + pixel * shown.length, Math.round(y) - 0.5);
      context.stroke();
    }
    context.textAlign = 'left';
    const gap = pixel > 4 ? 1 : 0;
    shown.forEach((bar, c) => {
      let y = height;
      for (const {color, ns} of this.parts) {
        const size = Math.min((height - 12) * ns[bar] / most, y - 12);
        context.fillStyle = color;
        context.fillRect(left + c * pixel, y - size, Math.max(pixel - gap, 0.6), size);
        y -= size;
      }
      if (this.total[bar] > 1.001 * most) {
        // The zigzag of a bar that goes on.
        context.fillStyle = styleOf('--background');
        context.fillRect(left + c * pixel - 1, 16, pixel + 2, 3);
      }
      if (bar === this.chosen || bar === this.focused) {
        context.strokeStyle = styleOf('--text');
        context.lineWidth = bar === this.chosen ? 2 : 1;
        context.strokeRect(left + c * pixel - 1, y - 2, Math.max(pixel - gap, 1) + 2, height - y + 3);
      }
    });
    context.fillStyle = styleOf('--muted');
    const apart = Math.ceil(50 / pixel);
    const power = 10 ** Math.floor(Math.log10(apart));
    const every = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= apart);
    shown.forEach((_, c) => {
      const x = left + c * pixel;
      if (c % every !== 0 || x > this.view.clientWidth - 30) return;
      context.fillText(String(this.number(Math.floor(c * this.start.length / shown.length))), x, height + 12);
    });
  }

  barAt(event) {
    const x = event.clientX - this.canvas.getBoundingClientRect().left - this.placed.left;
    const column = Math.floor(x / this.placed.pixel);
    return column >= 0 && column < this.placed.shown.length ? this.placed.shown[column] : -1;
  }

  words(bar) {
    const name = this.stepsABar > 1 ? `steps ${this.number(bar)} to ${this.number(bar + 1) - 1}, mean` : facts.steps.are_steps
        ? `step ${this.number(bar)}` : 'the whole window';
    const parts = this.parts.filter(({ns}) => ns[bar] > 0).sort((a, b) => b.ns[bar] - a.ns[bar]);
    return [`${name}: ${time(this.total[bar])}`,
            ...parts.map(({words, ns}) => `${words} ${time(ns[bar])} (${share(ns[bar], this.total[bar])})`)];
  }

  hover(event) {
    const bar = this.barAt(event);
    if (bar < 0) hideTooltip();
    else showTooltip(event, this.words(bar));
  }

  key(event) {
    const move = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity}[event.key];
    if (move !== undefined) {
      const from = this.focused >= 0 ? this.focused : Math.max(0, this.chosen);
      this.focused = Math.max(0, Math.min(this.start.length - 1, from + move));
      this.view.setAttribute('aria-valuetext', this.words(this.focused).join(', '));
      this.draw();
      event.preventDefault();
    } else if (event.key === 'Enter' && this.focused >= 0) {
      this.onChoose(this.focused * this.stepsABar);
    }
  }
}
