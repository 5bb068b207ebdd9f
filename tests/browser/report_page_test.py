#!/usr/bin/env python3
"""Uses report.html as a reader does, in headless Chromium without a network: the verdict, a step chosen, search, sorting,
keys, the timeline, dark, links, print, a phone, hostile names, empty and large recordings.

Usage: report_page_test.py WRITE_OUTPUTS_PROGRAM PROFTRACE GOLDEN_FOLDER [SCREENSHOT.png]
Exits with 77 without chromium. PROFTRACE and GOLDEN_FOLDER: the program, and the folder of the kept captures.
"""

import base64
import itertools
import json
import os
import subprocess
import sys
import time

import colours
from browser import check_no_complaints, do, run_in_browser

HOSTILE = "</script><script>window.hacked=1</script>"


class Page:
    """The report in the browser."""

    def __init__(self, browser):
        self.browser = browser

    def evaluate(self, expression):
        return self.browser.evaluate(expression)

    def open(self, url):
        # Another page in between: a link to the same page would only change the address.
        self.browser.call("Page.navigate", url="about:blank")
        self.browser.open(url, "report")

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def texts(self, selector):
        return self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")

    def scroll_to(self, selector):
        self.evaluate(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")

    def search(self, query):
        self.evaluate(
            f"{{ const s = document.querySelector('#search'); s.value = {json.dumps(query)};"
            " s.dispatchEvent(new Event('input')); }")

    def window(self):
        return self.evaluate("report.state.window")

    def rows(self):
        return self.evaluate("report.sections.get('timeline').timeline.rowRects()")

    def hash(self):
        return self.evaluate("decodeURIComponent(location.hash)")

    def calls(self, name):
        """The calls of an operator, as the table shows them now."""
        return self.evaluate(
            f"(report.sections.get('operators').table.all.find(r => r.name === {json.dumps(name)}) || {{count: 0}}).count")


def check_verdict(page):
    assert page.text("#why .about").startswith("Steps take"), page.text("#why .about")
    findings = page.texts("#why .what")
    assert 1 <= len(findings) <= 5, findings
    facts = page.evaluate("report.facts.verdict.findings")
    assert len(facts) == len(findings)
    for fact, shown in zip(facts, findings):
        assert fact["what"][1:] in shown, (fact, shown)
    certainties = page.texts("#why li .measured, #why li .likely")
    assert certainties == [fact["certainty"] for fact in facts]
    assert all(sentence in page.text("#why") for fact in facts for sentence in fact["evidence"])


def check_step_chosen(page):
    whole = page.calls("aten::addmm")
    assert whole >= 38, whole
    page.scroll_to("#steps .bars")
    box = page.evaluate("JSON.parse(JSON.stringify(document.querySelector('#steps canvas').getBoundingClientRect()))")
    placed = page.evaluate("report.sections.get('steps').bars.placed")
    x = box["x"] + placed["left"] + placed["pixel"] * 5.5
    page.browser.mouse("mouseMoved", x, box["y"] + 160)
    page.browser.wait("!document.querySelector('#tooltip').hidden")
    assert "step 5" in page.text("#tooltip"), page.text("#tooltip")
    page.browser.click(x, box["y"] + 160)
    page.browser.wait("report.state.window >= 0")
    assert "Step 5" in page.text("#window_text"), page.text("#window_text")
    assert page.calls("aten::addmm") == 1, page.calls("aten::addmm")
    assert "step=5" in page.hash(), page.hash()
    assert page.evaluate("report.sections.get('modules').tables[0].all.find(r => r.path === 'blocks.0').calls") == 1
    assert page.evaluate("report.sections.get('files').tables[0].all[0].calls") == 1
    assert page.evaluate("report.sections.get('waits').tables[0].all[0].count") == 1
    begin, end = page.evaluate("[report.sections.get('timeline').timeline.from, report.sections.get('timeline').timeline.to]")
    assert 0.9e6 < end - begin < 1.2e6, (begin, end)
    page.browser.key("n")
    assert "Step 6" in page.text("#window_text")
    page.browser.key("p")
    assert "Step 5" in page.text("#window_text")
    page.browser.key("s")
    slow = page.evaluate("report.sections.get('steps').bars.total[report.windowSteps[report.state.window]]")
    assert slow > 3e6, "the slowest step"
    page.browser.key("m")
    assert page.evaluate("report.sections.get('steps').bars.total[report.windowSteps[report.state.window]]") < 2e6
    page.browser.key("Escape")
    assert page.window() == -1 and page.calls("aten::addmm") == whole


def check_steps_by_keys(page):
    page.evaluate("document.querySelector('#steps .bars').focus()")
    for key in ("Home", "ArrowRight", "ArrowRight", "Enter"):
        page.browser.key(key)
    assert "Step 2" in page.text("#window_text"), page.text("#window_text")
    assert "step 2" in page.evaluate("document.querySelector('#steps .bars').getAttribute('aria-valuetext')")
    page.browser.click_on("#whole")
    assert page.window() == -1


def check_sorting(page):
    def column(index):
        return page.evaluate(
            f"[...document.querySelectorAll('#operators tbody tr')].map(r => r.children[{index}].textContent)")

    assert page.evaluate("document.querySelector('#operators [data-key=self]').parentElement.ariaSort") == "descending"
    def totals():
        """The column that the table is sorted by, in the order of the rows that are shown."""
        by_name = {row["name"]: row["total"] for row in page.evaluate("report.sections.get('operators').table.all")}
        return [by_name[name] for name in column(0)]

    page.scroll_to("#operators [data-key=total]")
    page.browser.click_on("#operators [data-key=total]")
    assert totals() == sorted(totals(), reverse=True) and len(set(totals())) > 2, totals()
    page.browser.click_on("#operators [data-key=total]")
    assert totals() == sorted(totals()), totals()
    assert "sort_op=total~" in page.hash(), page.hash()
    page.browser.click_on("#operators [data-key=name]")
    names = column(0)
    assert names == sorted(names), names
    page.evaluate("document.querySelector('#operators [data-key=self]').click()")


def check_shapes(page):
    page.evaluate("[...document.querySelectorAll('#operators tbody tr')].find(r => r.children[0].textContent === 'aten::addmm').click()")
    assert "aten::addmm by shape" in page.text("#operators .by_shape h3")
    assert page.texts("#operators .by_shape td.name") == ["[[3, 4], []]"], page.texts("#operators .by_shape td.name")
    page.evaluate("[...document.querySelectorAll('#operators .opener')].find(b => b.textContent === 'aten::linear').focus()")
    # With the text of the key, which is what presses a button.
    page.browser.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    page.browser.call("Input.dispatchKeyEvent", type="keyUp", key="Enter")
    page.browser.wait("document.querySelector('#operators .by_shape h3').innerText.startsWith('aten::linear by shape')")


def check_search(page):
    page.browser.key("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.browser.call("Input.insertText", text="ADDMM")
    page.browser.wait("document.querySelector('#matched').innerText !== ''")
    names = page.evaluate("[...document.querySelectorAll('#operators .table:first-of-type tbody tr')].map(r => r.children[0].textContent)")
    assert "aten::addmm" in names and all("addmm" in name.lower() for name in names if not name.startswith("[[")), names
    page.search("/^aten::lin/")
    assert "aten::linear" in page.texts("#operators td.name")
    assert "aten::addmm" not in page.texts("#operators > div > .table td.name")
    page.search("/(/")
    assert page.texts("#operators > div > .table td.name") == []
    page.browser.key("Escape")
    assert page.evaluate("document.querySelector('#search').value") == ""
    assert "aten::addmm" in page.texts("#operators td.name")


def check_timeline(page):
    page.scroll_to("#timeline .timeline_view")
    page.browser.key("s")
    rows = page.rows()
    waits = [row for row in rows if row["name"].startswith("off the CPU: io")]
    assert waits, {row["name"] for row in rows}
    page.scroll_to("#timeline .timeline_view")
    wait = max((row for row in page.rows() if row["name"].startswith("off the CPU: io")), key=lambda row: row["width"])
    x, y = wait["x"] + wait["width"] / 2, wait["y"] + 5
    page.browser.click(x, y)
    details = page.text("#timeline .details")
    assert "off the CPU: io" in details and "waits for I/O" in details and "ended by" in details, details
    begin = page.evaluate("report.sections.get('timeline').timeline.from")
    size = page.evaluate("(t => t.to - t.from)(report.sections.get('timeline').timeline)")
    page.evaluate("document.querySelector('.timeline_view').focus()")
    page.browser.key("+")
    assert abs(page.evaluate("(t => t.to - t.from)(report.sections.get('timeline').timeline)") * 2 - size) < 2
    page.browser.key("ArrowRight")
    assert page.evaluate("report.sections.get('timeline').timeline.from") > begin
    page.browser.wait("location.hash.includes('view=')")
    page.browser.key("0")
    assert abs(page.evaluate("report.sections.get('timeline').timeline.from") - begin) < 2
    kinds = {row["lane"].split(" · ")[0] for row in page.rows()}
    assert {"drives the steps", "GPU 0, stream 7", "GPU 0 idle, and why"} <= kinds or "drives the steps" in kinds, kinds
    page.browser.key("Escape")


def check_flame_graph(page):
    page.scroll_to("#flame .graph")
    root = page.evaluate("report.sections.get('flame').graph.frameRects().find(f => f.depth === 0)")
    assert root["width"] > 300
    frame = page.evaluate("report.sections.get('flame').graph.frameRects().find(f => f.name === 'aten::linear')")
    page.browser.click(frame["x"] + frame["width"] / 2, frame["y"] + 5)
    page.browser.wait("report.sections.get('flame').graph.zoom !== 0")
    assert "aten::linear" in page.text("#flame .details")
    page.browser.click_on("#flame [data-action=reset]")
    assert page.evaluate("report.sections.get('flame').graph.zoom") == 0


def check_memory(page):
    assert "1.00 MiB at the peak" in page.text("#memory"), page.text("#memory")
    assert "aten::linear/aten::addmm" in page.texts("#memory td.name")


def check_trust(page):
    text = page.text("#trust")
    assert "Ledger" in text and "What recording cost" in text, text
    assert "--sample 99Hz" in text, "what was not recorded, and by which option it would be"


def check_hostile_names(page):
    assert page.evaluate("window.hacked") is None
    assert HOSTILE in page.text("#title")
    assert HOSTILE in page.texts("#operators td.name")
    assert page.evaluate("document.querySelectorAll('img, b[onmouseover]').length") == 0
    assert any("\\u202egpj.exe" in text for text in page.texts("#files td.name")), page.texts("#files td.name")
    assert "\u202e" not in page.evaluate("document.body.innerText")
    assert page.evaluate("document.querySelectorAll('script').length") == 4
    page.evaluate("document.querySelector('#files td.name').dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))")
    assert page.evaluate("window.hacked") is None


def check_dark(page):
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.browser.key("d")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    assert "dark=1" in page.hash()
    page.browser.key("d")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == before


def check_links(page, url):
    page.open(url + "#step=9&q=linear&sort_op=total~&dark=1")
    assert "Step 9" in page.text("#window_text")
    assert page.evaluate("document.querySelector('#search').value") == "linear"
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    table = page.evaluate("(t => [t.key, t.isDown])(report.sections.get('operators').table)")
    assert table == ["total", False], table
    page.open(url + "#step=999999999&view=x~y&sort_op=nothing&q=%E0%A4%A")
    assert page.window() >= 0, "the nearest step"
    page.open(url + "#%22%3E%3Cscript%3Ehacked=1%3C/script%3E")
    assert page.evaluate("window.hacked") is None and page.window() == -1


def check_keys_dialog(page):
    page.browser.key("n")
    chosen = page.window()
    assert chosen >= 0
    page.browser.key("?")
    assert page.evaluate("document.querySelector('#keys').open")
    page.browser.key("Escape")
    assert page.window() == chosen, "Escape closes the keys alone"
    page.browser.call("Runtime.evaluate", expression="document.querySelector('#keys').close()")


def check_print(page):
    for is_dark in (True, False):
        if page.evaluate("document.documentElement.dataset.theme === 'dark'") != is_dark:
            page.browser.key("d")
        themes = page.evaluate("['beforeprint', 'afterprint'].map(name => "
                               "(window.dispatchEvent(new Event(name)), document.documentElement.dataset.theme))")
        assert themes == ["light", "dark" if is_dark else "light"], themes
    pdf = base64.b64decode(page.browser.call("Page.printToPDF", printBackground=True)["data"])
    assert pdf.startswith(b"%PDF") and len(pdf) > 20_000, len(pdf)
    page.browser.call("Emulation.setEmulatedMedia", media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.evaluate("getComputedStyle(document.querySelector('#why')).display") != "none"
    # As wide as a sheet of paper: nothing is cut at its right edge.
    page.browser.call("Emulation.setDeviceMetricsOverride", width=720, height=1000, deviceScaleFactor=1, mobile=False)
    cut = page.evaluate("""[...document.querySelectorAll('.table, .treemap')].filter(
        (view) => [...view.querySelectorAll('td, th, .module')].some(
            (one) => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)).map((view) => view.className)""")
    assert cut == [], cut
    page.browser.call("Emulation.clearDeviceMetricsOverride")
    page.browser.call("Emulation.setEmulatedMedia", media="")


def check_phone(page, *urls):
    page.browser.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=2, mobile=True)
    for url in urls:
        page.open(url)
        assert page.evaluate("document.documentElement.scrollWidth") <= 391, "nothing sticks out"
    assert page.evaluate("document.querySelector('#why .what').getBoundingClientRect().width") > 250
    page.browser.call("Emulation.clearDeviceMetricsOverride")


def check_gpu(page, url):
    page.open(url)
    assert "GPU 0 of PID 4711: idle" in page.text("#gpu")
    lanes = {row["lane"] for row in page.rows()}
    assert "GPU 0, stream 7" in lanes and "GPU 0 idle, and why" in lanes, lanes
    page.browser.key("n")
    assert "Gaps that began in the step" in page.text("#gpu")


def check_kept_captures(page, urls):
    """Pages of captures that lost records, whose recorder was killed, or that are of several processes."""
    for url in urls:
        page.open(url)
        assert page.text("#why .about"), url
        for key in ("n", "Escape", "d", "d"):
            page.browser.key(key)


def check_nothing_happened(page, url):
    page.open(url)
    assert page.text("#why .about").startswith("No steps were found")
    assert page.texts("#operators td") == []


def check_many_steps(page, url):
    page.open(url)
    steps = page.evaluate("report.facts.steps.count")
    bars = page.evaluate("report.sections.get('steps').bars.total.length")
    assert steps > 10_000 and bars == (steps + 1) // 2, (steps, bars)
    assert page.evaluate("report.windowSteps.length") == 10_000  # they have few rows
    assert f"10000 of {steps}" in page.text("#trust"), page.text("#trust")
    assert "bars of 2 steps" in page.text("#trust")
    page.evaluate("document.querySelector('#steps .bars').focus()")
    for key in ("End", "Enter"):
        page.browser.key(key)
    assert page.evaluate("report.windowSteps[report.state.window]") == steps - 1
    assert page.calls("aten::addmm") == 1
    begin, end = page.evaluate("(t => [t.from, t.to])(report.sections.get('timeline').timeline)")
    assert 0 < end - begin < 10e6, (begin, end)
    assert any(row["name"] == "aten::addmm" for row in page.rows())


def check_empty(page, url):
    page.open(url)
    assert page.text("#why .about").startswith("Nothing was recorded")
    assert "Nothing was recorded that has a place in time" in page.text("#timeline")
    for key in ("n", "p", "s", "m", "Escape"):
        page.browser.key(key)


def check_large(page, url):
    start = time.monotonic()
    page.open(url)
    opened_s = time.monotonic() - start
    ready_ms = page.evaluate("report.readyMs")
    draw_ms = page.evaluate("(t => { const s = performance.now(); t.drawNow(); return performance.now() - s; })"
                            "(report.sections.get('timeline').timeline)")
    print(f"large: opened in {opened_s:.2f} s, ready after {ready_ms:.0f} ms, timeline drawn in {draw_ms:.0f} ms")
    assert opened_s < 20 and draw_ms < 1000, (opened_s, draw_ms)
    steps, windows = page.evaluate("[report.facts.steps.count, report.windowSteps.length]")
    assert 200 <= windows <= steps, (steps, windows)
    assert "Not drawn:" in page.text("#timeline")
    assert "Timeline, operators and annotations" in page.text("#trust")


# Classes of rows that stand beside each other in one lane of the timeline.
LANES = (("operator", "autograd", "annotation", "CUDA call", "garbage collection", "collective"), ("kernel", "copy", "GPU, other", "collective"),
         ("system call", "page fault", "has no CPU", "waits for a lock", "waits for I/O", "waits for another thread", "sleeps or polls", "waits otherwise"))
FAR_ENOUGH = 15  # CIEDE2000; 2.3 is what people just see, 10 is told apart at a glance
FAR_ENOUGH_SHADED = 5
BACKGROUNDS = ("#ffffff", "#15171b")  # light and dark, of page.css


def check_colours(page):
    """People of any colour vision tell the colours apart, see them on both backgrounds, and read what is written on them."""
    for one, two, known in colours.PUBLISHED:
        assert abs(colours.difference(one, two) - known) < 1e-4, (one, two, colours.difference(one, two))
    parts = page.evaluate("Object.fromEntries(report.facts.steps.parts.map((part, i) => [part, report.colors.PART_COLORS[i]]))")
    causes = page.evaluate("report.colors.CAUSE_COLORS")
    classes = page.evaluate("Object.fromEntries(report.colors.CLASSES)")
    assert len(parts) == 14 and len(causes) == 12 and {name for lane in LANES for name in lane} <= set(classes)
    groups = [parts, causes, *({name: classes[name] for name in lane} for lane in LANES)]
    for vision in colours.VISIONS:
        apart = [colours.nearest(group, vision) for group in groups]
        print(f"{vision}: nearest of each group " + ", ".join(f"{distance:.1f}" for distance, _, _ in apart))
        assert min(apart)[0] > FAR_ENOUGH, (vision, min(apart))
    # Names make a colour lighter or darker.
    shades = page.evaluate("Object.fromEntries(report.colors.CLASSES.map(([name, color]) => [name,"
                           " [...new Set(Array.from({length: 400}, (_, i) => report.colors.shade(color, 'name' + i)))]]))")
    for lane in LANES[:2]:
        for vision in colours.VISIONS:
            seen = {name: [colours.lab(colours.seen(colours.linear(shade), vision)) for shade in shades[name]] for name in lane}
            nearest = min((colours.difference(a, b), one, two) for one, two in itertools.combinations(lane, 2) for a in seen[one] for b in seen[two])
            print(f"{vision}: nearest shades of a lane {nearest}")
            assert nearest[0] > FAR_ENOUGH_SHADED, (vision, nearest)
    for color in {*parts.values(), *(shade for list_ in shades.values() for shade in list_)}:
        ink = page.evaluate(f"report.colors.ink({json.dumps(color)})")
        assert colours.contrast(color, ink) > 4.5, (color, ink, colours.contrast(color, ink))
    for color in parts.values():
        assert min(colours.contrast(color, background) for background in BACKGROUNDS) > 1.6, color


def check_old_browsers(page, report):
    """A browser that lacks what the page needs, or cannot read its script, says so and shows the verdict."""
    with open(report, encoding="utf-8") as file:
        text = file.read()
    head, script = text.rsplit("<script>\n'use strict';", 1)
    unread = os.path.join(os.path.dirname(report), "unread.html")
    with open(unread, "w", encoding="utf-8") as file:
        file.write(f"{head}<script>\n'use strict'; syntax that @ nobody reads yet{script}")
    what = page.evaluate("report.facts.verdict.findings[0].what")[1:]  # the page gives it a capital
    for path, lacks, told in ((report, "delete window.DecompressionStream", "DecompressionStream"),
                              (report, "delete Element.prototype.replaceChildren", "replaceChildren"),
                              (report, "delete window.matchMedia", "matchMedia"), (unread, "", "SyntaxError")):
        with page.browser.new_tab() as old:
            old.call("Page.addScriptToEvaluateOnNewDocument", source=lacks)
            old.call("Page.navigate", url="file://" + path)
            old.wait("document.querySelector('.notice') !== null")
            notice = old.evaluate("document.querySelector('.notice').textContent")
            assert "needs a browser of 2023 or later" in notice and told in notice, notice
            assert what in old.evaluate("document.querySelector('#sections').textContent"), (path, lacks)
            assert old.evaluate("document.querySelectorAll('.notice').length") == 1


def make_pages(program, proftrace, golden, folder):
    for name, kind, number in (("report", "report", "40"), ("random", "random", "3"), ("training", "training", "200000"),
                               ("deep", "deep", "0"), ("empty", "empty", "0"), ("steps", "report", "12000")):
        os.mkdir(os.path.join(folder, name))
        subprocess.run([program, os.path.join(folder, name), kind, number], check=True)
    for name in ("gpu", "mlp", "workers", "forced_loss", "names", "killed_tracer"):
        subprocess.run([proftrace, "export", os.path.join(golden, name), "--format", "report", "--salvage",
                        "-o", os.path.join(folder, name + ".html")], check=False, stderr=subprocess.DEVNULL)


def run(browser, folder):
    program, proftrace, golden, screenshot = (sys.argv[1:] + [""])[:4]
    make_pages(program, proftrace, golden, folder)
    page = Page(browser)
    url = f"file://{folder}"
    browser.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    page.open(f"{url}/report/report.html")
    for check in (check_verdict, check_step_chosen, check_steps_by_keys, check_sorting, check_shapes, check_search,
                  check_timeline, check_flame_graph, check_memory, check_trust, check_hostile_names, check_dark,
                  check_keys_dialog, check_print):
        do(check, page)
    if screenshot:
        browser.screenshot(screenshot)
    do(check_colours, page)
    do(check_old_browsers, page, f"{folder}/report/report.html")
    do(check_links, page, f"{url}/report/report.html")
    do(check_phone, page, f"{url}/mlp.html", f"{url}/gpu.html", f"{url}/report/report.html")
    do(check_gpu, page, f"{url}/gpu.html")
    do(check_kept_captures, page, [f"{url}/{name}.html" for name in ("mlp", "workers", "forced_loss", "names", "killed_tracer")]
       + [f"{url}/random/report.html"])
    do(check_nothing_happened, page, f"{url}/deep/report.html")
    do(check_empty, page, f"{url}/empty/report.html")
    do(check_many_steps, page, f"{url}/steps/report.html")
    do(check_large, page, f"{url}/training/report.html")
    do(check_no_complaints, browser)


if __name__ == "__main__":
    sys.exit(run_in_browser(run))
