// The buttons of a page that `proftrace view` serves: they hand its trace to Perfetto's page and its stacks to speedscope's.
'use strict';
(() => {
  const PING_EVERY_MS = 100;
  const MOST_WAIT_MS = 60000;
  const LARGE_BYTES = 500e6;
  const view = JSON.parse(document.getElementById('view').textContent);
  const tools = document.querySelector('.tools');
  const status = document.createElement('span');
  status.className = 'muted';
  status.id = 'view_status';
  status.setAttribute('role', 'status');

  function say(text) { status.textContent = text; }

  // The stretch that is looked at first, in the trace's own nanoseconds: the step that is chosen in the page, else the slowest
  // one, else all. null: not known.
  function whereToLook(report) {
    if (report === undefined || report.facts.trace_start_ns === undefined) return null;
    const {facts, columns, state} = report;
    const of = columns.has('windows.start') ? 'windows' : columns.has('steps.start') ? 'steps' : null;
    if (of === null) return null;
    const starts = columns.get(of + '.start');
    const ends = columns.get(of + '.end');
    let step = of === 'windows' ? state.window : 0;
    if (step < 0) {
      step = 0;
      for (let i = 1; i < starts.length; ++i) {
        if (ends[i] - starts[i] > ends[step] - starts[step]) step = i;
      }
    }
    // Perfetto leaves out a stretch that is not wholly within the trace: the rounding to microseconds must not matter.
    const start = facts.trace_start_ns + starts[step] + 1000;
    return {start, end: Math.max(start + 1000, facts.trace_start_ns + ends[step] - 1000)};
  }

  // What Perfetto is asked for by its address: which stretch it shows, and that the rows of the training thread are unfolded.
  function wishes(report) {
    const words = new URLSearchParams();
    const stretch = whereToLook(report);
    if (stretch !== null) {
      words.set('visStart', stretch.start.toFixed(0));
      words.set('visEnd', stretch.end.toFixed(0));
    }
    if (report !== undefined && report.facts.steps && report.facts.steps.tid !== undefined) {
      const {pid, tid} = report.facts.steps;
      words.set('startupCommands', JSON.stringify([
        {id: 'dev.perfetto.ExpandTracksByRegex', args: [`(^|\\s)(${pid}|${tid})$`]}]));
    }
    const text = words.toString();
    return text === '' ? '' : '#!/?' + text.replaceAll('+', '%20');
  }

  // Perfetto answers once it can take a trace; what was sent before is lost.
  function answered(opened, origin) {
    return new Promise((resolve, reject) => {
      const begun = performance.now();
      const end = (act) => { clearInterval(timer); window.removeEventListener('message', hear); act(); };
      const hear = (event) => {
        if (event.source === opened && event.origin === origin && event.data === 'PONG') end(resolve);
      };
      const timer = setInterval(() => {
        if (opened.closed) end(() => reject(new Error('its window was closed')));
        else if (performance.now() - begun > MOST_WAIT_MS) end(() => reject(new Error(`${origin} does not answer`)));
        else opened.postMessage('PING', origin);
      }, PING_EVERY_MS);
      window.addEventListener('message', hear);
    });
  }

  async function fetched(name) {
    const answer = await fetch(name);
    if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
    return answer.arrayBuffer();
  }

  async function openInPerfetto() {
    const ui = new URL(view.perfetto, location.href);
    // At once: a browser lets a page open a window only while it handles a click.
    const opened = window.open(ui.href + wishes(window.report), '_blank');
    if (opened === null) {
      say('The browser has kept the window from opening: allow pop-ups for this page.');
      return;
    }
    say('Handing the trace over …');
    try {
      const [buffer] = await Promise.all([fetched(view.trace.name), answered(opened, ui.origin)]);
      // No url: it would tell Perfetto's page the address of this one.
      opened.postMessage({perfetto: {buffer, title: view.title, fileName: view.trace.name}}, ui.origin, [buffer]);
      say('');
    } catch (error) {
      say(`Perfetto cannot take the trace: ${error.message}.`);
    }
  }

  function openInSpeedscope() {
    const ui = new URL(view.speedscope_ui, location.href);
    const profile = new URL(view.speedscope.name, location.href);
    window.open(`${ui.href}#profileURL=${encodeURIComponent(profile.href)}&title=${encodeURIComponent(view.title)}`, '_blank',
                'noopener');
  }

  function addButton(id, text, title, act) {
    const button = document.createElement('button');
    Object.assign(button, {id, type: 'button', textContent: text, title});
    button.addEventListener('click', act);
    tools.append(button);
  }

  if (view.trace) {
    const advice = view.trace.bytes > LARGE_BYTES
        ? 'This trace is large for a browser: trace_processor --httpd takes it faster' : 'The timeline, at the chosen or the slowest step';
    addButton('open_perfetto', 'Open in Perfetto', advice, openInPerfetto);
  }
  if (view.speedscope) addButton('open_speedscope', 'Open in speedscope', 'The stacks', openInSpeedscope);
  tools.append(status);
})();
