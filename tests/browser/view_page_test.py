#!/usr/bin/env python3
"""Uses `proftrace view` as a reader does, in headless Chromium: the buttons, what Perfetto's page gets, what speedscope's gets.

Usage: view_page_test.py WRITE_OUTPUTS_PROGRAM PROFTRACE GOLDEN_FOLDER [VIEWERS_FOLDER] [SCREENSHOT.png]
VIEWERS_FOLDER: what scripts/install-viewers.sh has made: Perfetto's own page and speedscope's. Without it a page of this test
speaks Perfetto's protocol. Exits with 77 without chromium.
"""

import contextlib
import functools
import gzip
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

from browser import do, run_in_browser

# No name leads anywhere: the pages have this machine alone.
OFFLINE = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
SERVING = re.compile(r"at (http://127\.0\.0\.1:(\d+)/[0-9a-f]+/)$", re.MULTILINE)

# Perfetto's documented protocol and nothing else: PONG once it can hear, then one trace, from who has opened it.
DOUBLE = """<!DOCTYPE html><title>double</title><script>
window.got = null;
window.pings = 0;
window.addEventListener('message', (event) => {
  if (event.source !== window.opener) return;
  if (event.data === 'PING') {
    if (++window.pings > 2) event.source.postMessage('PONG', event.origin);
  } else if (event.data.perfetto && window.got === null) {
    const {buffer, title, fileName, url} = event.data.perfetto;
    const text = new Response(new Blob([buffer]).stream().pipeThrough(new DecompressionStream('gzip'))).text();
    text.then((json) => { window.got = {title, fileName, url, origin: event.origin, events: JSON.parse(json).traceEvents.length}; });
  }
});
</script>"""


@contextlib.contextmanager
def served(proftrace, *arguments):
    """The address of a `proftrace view` that runs meanwhile."""
    process = subprocess.Popen([proftrace, "view", "--no-browser", *arguments], stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if found := SERVING.search(line):
                yield found.group(1)
                break
        else:
            raise AssertionError("proftrace view does not serve")
    finally:
        process.terminate()
        process.communicate()
    assert process.returncode == 0, process.returncode


@contextlib.contextmanager
def other_origin(folder):
    """The address of another server of this machine, which is another origin to a browser."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    handler.log_message = lambda *_: None
    http.server.SimpleHTTPRequestHandler.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def open_report(browser, url):
    browser.open(url, "report")
    browser.wait("document.querySelector('#open_perfetto') !== null")


def step_of(browser, which):
    """[start, end] of a step in the page, in the trace's own nanoseconds; -1: of the slowest."""
    return browser.evaluate(f"""(() => {{
        const {{facts, columns}} = report;
        const [starts, ends] = [columns.get('windows.start'), columns.get('windows.end')];
        let step = {which};
        if (step < 0) for (let i = step = 0; i < starts.length; ++i) if (ends[i] - starts[i] > ends[step] - starts[step]) step = i;
        return [facts.trace_start_ns + starts[step], facts.trace_start_ns + ends[step]];
    }})()""")


def check_no_buttons_in_the_file(browser, folder):
    browser.open(f"file://{folder}/report/report.html", "report")
    assert browser.evaluate("document.querySelector('#open_perfetto, #open_speedscope, #view') === null")
    blocked = browser.evaluate("fetch('https://example.com').then(() => 'fetched', (error) => 'blocked')")
    assert blocked == "blocked", blocked


def check_protocol(browser, proftrace, folder):
    """The page that is opened gets the trace by postMessage, from another origin and from a folder that is served too."""
    os.makedirs(f"{folder}/double", exist_ok=True)
    with open(f"{folder}/double/index.html", "w", encoding="utf-8") as file:
        file.write(DOUBLE)
    with gzip.open(f"{folder}/capture/trace.json.gz") as file:
        events = len(json.load(file)["traceEvents"])
    with other_origin(f"{folder}/double") as address:
        for ui in (address, f"{folder}/double"):
            with served(proftrace, f"{folder}/capture", "--perfetto-ui", ui) as url:
                open_report(browser, url)
                slowest = step_of(browser, -1)
                with browser.opened_by(lambda: browser.click_on("#open_perfetto"), address if ui == address else "/perfetto/") as opened:
                    opened.wait("window.got !== null")
                    got = opened.evaluate("window.got")
                    shown = opened.evaluate("location.hash")
                assert got == {"title": "capture", "fileName": "trace.json.gz", "origin": url.rstrip("/").rsplit("/", 1)[0], "events": events}, got
                start, end = (int(re.search(name + r"=(\d+)", shown).group(1)) for name in ("visStart", "visEnd"))
                assert slowest[0] < start < end < slowest[1] and end - start > 0.9 * (slowest[1] - slowest[0]), (slowest, start, end)
                browser.wait("document.querySelector('#view_status').textContent === ''")


def check_chosen_step(browser, proftrace, folder):
    with served(proftrace, f"{folder}/capture", "--perfetto-ui", f"{folder}/double") as url:
        open_report(browser, url)
        browser.evaluate("report.choose(1)")
        chosen = step_of(browser, 1)
        with browser.opened_by(lambda: browser.click_on("#open_perfetto"), "/perfetto/") as opened:
            start = int(re.search(r"visStart=(\d+)", opened.evaluate("location.hash")).group(1))
        assert 0 < start - chosen[0] < 5000, (start, chosen)


def check_no_answer(browser, proftrace, folder):
    """A window that is closed before it answers is said to be so, and a trace alone has its small page."""
    os.makedirs(f"{folder}/silent", exist_ok=True)
    with open(f"{folder}/silent/index.html", "w", encoding="utf-8") as file:
        file.write("<!DOCTYPE html><title>silent</title>")
    with served(proftrace, f"{folder}/capture/trace.json.gz", "--perfetto-ui", f"{folder}/silent") as url:
        browser.call("Page.navigate", url=url)
        browser.wait("document.querySelector('#open_perfetto') !== null")
        assert browser.evaluate("document.querySelector('#open_speedscope') === null")
        with browser.opened_by(lambda: browser.click_on("#open_perfetto"), "/perfetto/"):
            pass
        browser.wait("document.querySelector('#view_status').textContent.includes('was closed')")


def check_perfetto(browser, proftrace, folder, viewers, screenshot):
    """Perfetto's own page, without network: it has the trace's threads, shows the slowest step, the training thread unfolded."""
    with served(proftrace, f"{folder}/capture", "--perfetto-ui", f"{viewers}/perfetto") as url:
        open_report(browser, url)
        slowest = step_of(browser, -1)
        tid = browser.evaluate("report.facts.steps.tid")
        begun = time.monotonic()
        with browser.opened_by(lambda: browser.click_on("#open_perfetto"), "/perfetto/") as perfetto:
            perfetto.wait("self.app && app.trace && app.trace.workspace.flatTracks.some((track) => !track.collapsed)")
            print(f"Perfetto shows the trace {time.monotonic() - begun:.1f} s after the click")
            seen = perfetto.evaluate("""(() => {
                const window_ = app.trace.timeline.visibleWindow;
                return {start: Number(window_.start.integral), duration: window_.duration, title: app.trace.traceInfo.traceTitle,
                        tracks: app.trace.workspace.flatTracks.map((track) => [track.name, track.collapsed])};
            })()""")
            rows = perfetto.evaluate("app.trace.engine.query(\"select count(*) as n from slice where name glob 'aten::*'\")"
                                     ".then((result) => result.firstRow({n: 0}).n)")
            if screenshot:
                perfetto.wait("document.querySelector('.pf-timeline-page, .pf-viewer-page, main') !== null")
                time.sleep(1)  # for the eye alone: until it has drawn
                perfetto.screenshot(screenshot)
            check_requests(perfetto, url)
    assert slowest[0] <= seen["start"] and seen["start"] + seen["duration"] <= slowest[1] + 1, (slowest, seen)
    assert seen["duration"] > 0.9 * (slowest[1] - slowest[0]), (slowest, seen)
    unfolded = [name for name, collapsed in seen["tracks"] if not collapsed]
    assert any(name.endswith(f" {tid}") for name in unfolded), seen
    with gzip.open(f"{folder}/capture/trace.json.gz") as file:
        of_trace = sum(event["ph"] == "X" and event["name"].startswith("aten::") for event in json.load(file)["traceEvents"])
    assert rows == of_trace > 0, (rows, of_trace)
    assert "capture" in seen["title"], seen["title"]


def check_speedscope(browser, proftrace, folder, viewers):
    """speedscope's own page fetches the stacks: from the folder that is served too, and from another origin by its leave."""
    with other_origin(f"{viewers}/speedscope") as address:
        for ui in (f"{viewers}/speedscope", address):
            with served(proftrace, f"{folder}/capture", "--speedscope-ui", ui) as url:
                open_report(browser, url)
                with browser.opened_by(lambda: browser.click_on("#open_speedscope"), "profileURL=") as speedscope:
                    speedscope.wait("document.title.includes('capture')")
                    assert speedscope.evaluate("window.opener === null")
                    check_requests(speedscope, url, address)


def check_requests(browser, *own):
    """Nothing was asked of any other machine, but by what Perfetto's page tries and is refused."""
    for event in browser.events_of("Network.responseReceived"):
        url = event["params"]["response"]["url"]
        assert url.startswith((*own, "data:", "blob:", "http://127.0.0.1:")), url


def make_results(program, proftrace, golden, folder):
    os.makedirs(f"{folder}/report")
    subprocess.run([program, f"{folder}/report", "report", "40"], check=True)
    os.makedirs(f"{folder}/capture")
    with open(f"{golden}/workers/capture.ptrec", "rb") as file, open(f"{folder}/capture/capture.ptrec", "wb") as copy:
        copy.write(file.read())
    subprocess.run([proftrace, "export", f"{folder}/capture", "--format", "report,chrome", "-o", f"{folder}/capture"], check=True,
                   stderr=subprocess.DEVNULL)


def run(browser, folder):
    program, proftrace, golden, viewers, screenshot = (sys.argv[1:] + [""] * 2)[:5]
    os.chmod(folder, 0o755)
    make_results(program, proftrace, golden, folder)
    do(check_no_buttons_in_the_file, browser, folder)
    do(check_protocol, browser, proftrace, folder)
    do(check_chosen_step, browser, proftrace, folder)
    do(check_no_answer, browser, proftrace, folder)
    if not viewers:
        print("not done: Perfetto's and speedscope's own pages are not here (scripts/install-viewers.sh)")
        return
    do(check_perfetto, browser, proftrace, folder, viewers, screenshot)
    do(check_speedscope, browser, proftrace, folder, viewers)


if __name__ == "__main__":
    sys.exit(run_in_browser(run, OFFLINE))
