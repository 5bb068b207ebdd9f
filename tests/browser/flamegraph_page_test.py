#!/usr/bin/env python3
"""Uses flamegraph.html as a reader does, in headless Chromium: zoom, reset, search, icicle, dark, tooltip, keys,
weights, functions, callers and callees, links, comparisons.

Usage: flamegraph_page_test.py WRITE_OUTPUTS_PROGRAM PROFTRACE GOLDEN_FOLDER [SCREENSHOT.png]
Exits with 77 without chromium. PROFTRACE and GOLDEN_FOLDER: the program, and the folder of the kept captures.
"""

import json
import os
import re
import subprocess
import sys
import time

from browser import check_no_complaints, do, run_in_browser


class Page:
    """The flame graph in the browser, in its own words."""

    def __init__(self, browser):
        self.browser = browser

    def frames(self, which="frame"):
        return self.browser.evaluate(f"flamegraph.{which}Rects()")

    def frame(self, name, depth=None, which="frame"):
        found = [f for f in self.frames(which) if f["name"] == name and depth in (None, f["depth"])]
        assert found, f"no frame {name!r} is drawn"
        return max(found, key=lambda f: f["width"])

    def click(self, frame):
        self.browser.click(frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2)

    def hover(self, frame):
        self.browser.mouse("mouseMoved", frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2)

    def text(self, selector):
        return self.browser.evaluate(f"document.querySelector('{selector}').innerText")

    def state(self, expression):
        return self.browser.evaluate("flamegraph.state." + expression)

    def zoomed(self):
        return self.browser.evaluate("flamegraph.zoomed()")

    def selected(self):
        return self.browser.evaluate("flamegraph.selected()")

    def search(self, query):
        self.browser.evaluate(
            f"{{ const s = document.querySelector('#search'); s.value = {json.dumps(query)};"
            " s.dispatchEvent(new Event('input')); }")

    def choose(self, selector, value):
        self.browser.evaluate(
            f"{{ const s = document.querySelector('{selector}'); s.value = {json.dumps(str(value))};"
            " s.dispatchEvent(new Event('change')); }")

    def total(self, side=0):
        return self.browser.evaluate(f"flamegraph.weighings()[{side}].totals[0]")


def check_drawn(page):
    root = page.frame("all")
    linear = page.frame("aten::linear")
    assert linear["y"] < root["y"], "the root is at the bottom"
    assert 1150 < root["width"] <= 1200
    covered = sum(f["width"] for f in page.frames() if f["depth"] == 1)
    assert abs(covered - root["width"]) < 3, "frames of one row fill their parent"
    pixel = page.browser.evaluate(
        f"Array.from(flamegraph_pixel({linear['x'] + 3}, {linear['y'] + 3}))"
    )
    assert pixel[3] == 255, "the frame is painted"


def check_zoom(page):
    page.click(page.frame("aten::linear"))
    assert page.zoomed() == "aten::linear"
    zoomed = page.frame("aten::linear")
    assert abs(zoomed["width"] - page.frame("all")["width"]) < 1, "the zoomed frame spans the page"
    assert page.frame("aten::addmm")["width"] > 300
    assert not any(f["name"] == "aten::relu" for f in page.frames()), "what is beside it is gone"
    assert "aten::linear" in page.text("#details")
    page.browser.click_on("#reset")
    assert page.zoomed() == "all"
    assert page.frame("aten::relu")["width"] > 1


def check_tooltip(page):
    page.hover(page.frame("aten::addmm"))
    page.browser.wait("!document.querySelector('#tooltip').hidden")
    text = page.text("#tooltip")
    assert text.startswith("aten::addmm"), text
    for term in ("Self", "Total", "Count"):
        assert term in text, text
    assert re.search(r"\d+\.\d\d % of all", text), text
    page.browser.mouse("mouseMoved", 5, 5)
    page.browser.wait("document.querySelector('#tooltip').hidden")


def check_search(page):
    page.browser.key("/")
    assert page.browser.evaluate("document.activeElement.id") == "search"
    page.browser.call("Input.insertText", text="ADDMM")
    page.browser.wait("document.querySelector('#matched').innerText !== ''")
    matched = float(re.search(r"([\d.]+) %", page.text("#matched")).group(1))
    # addmm and AddmmBackward0 match; addmm within AddmmBackward0 must not count twice.
    frames = page.frames()
    root = page.frame("all")["width"]
    top = [f for f in frames if f["matched"] and not any(
        o["matched"] and o["depth"] < f["depth"] and o["x"] - 1 <= f["x"] and
        f["x"] + f["width"] <= o["x"] + o["width"] + 1 for o in frames)]
    assert abs(matched - 100 * sum(f["width"] for f in top) / root) < 1, (matched, top)
    assert all(("addmm" in f["name"].lower()) == f["matched"] for f in frames)
    page.search("/^aten::(t|relu)$/")
    assert {f["name"] for f in page.frames() if f["matched"]} == {"aten::t", "aten::relu"}
    page.browser.key("Escape")
    assert page.text("#matched") == "" and not any(f["matched"] for f in page.frames())


def check_icicle_and_dark(page):
    page.browser.click_on("#icicle")
    assert page.frame("aten::linear")["y"] > page.frame("all")["y"], "the root is on top"
    assert page.browser.evaluate("document.querySelector('#icicle').getAttribute('aria-pressed')") == "true"
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.browser.evaluate(background)
    page.browser.click_on("#theme")
    dark = page.browser.evaluate(background)
    assert light != dark and page.state("dark") is True
    page.browser.evaluate("document.querySelector('#view').focus()")
    page.browser.key("i")
    page.browser.key("d")
    assert page.frame("aten::linear")["y"] < page.frame("all")["y"]
    assert page.browser.evaluate(background) == light


def check_keyboard(page):
    page.browser.evaluate("document.querySelector('#view').focus()")
    page.browser.key("ArrowUp")  # from the root to its largest child
    largest = page.selected()
    assert largest == max((f for f in page.frames() if f["depth"] == 1), key=lambda f: f["width"])["name"]
    page.browser.key("Enter")
    assert page.zoomed() == largest
    page.browser.key("ArrowDown")
    assert page.selected() == "all"
    page.browser.key("Escape")
    assert page.zoomed() == "all"


def check_nasty_names(page, url):
    """Names with markup, quotes and other alphabets: shown as text, and nothing of them runs."""
    page.browser.open(url)
    names = {f["name"] for f in page.frames()}
    assert "</script> \"q\", 'x'; y" in names and "Größe::π" in names
    page.click(page.frame("</script> \"q\", 'x'; y"))
    assert "</script>" in page.text("#details")


def check_deep_stack(page, url):
    """A graph higher than the window scrolls, and what is scrolled to is drawn."""
    page.browser.open(url)
    view = "document.querySelector('#view')"
    assert page.browser.evaluate(f"{view}.scrollTop") > 5_000, "it opens at the root"
    page.frame("all")
    page.browser.evaluate(f"{view}.scrollTop = 0")
    top = page.browser.evaluate("document.querySelector('canvas').getBoundingClientRect().y")
    assert 0 <= top < 160, f"the canvas stays in view: {top}"
    leaf = page.frame("level 499")
    assert 0 <= leaf["y"] - top < 40, leaf
    page.click(leaf)
    assert page.zoomed() == "level 499"


class Paths:
    """The page's data, summed here in another way: by the frames on each path."""

    def __init__(self, browser):
        data = json.loads(browser.evaluate("document.querySelector('#data').textContent"))
        self.frames = data["frames"]
        self.values = data["values"]
        nodes = data["nodes"]
        self.paths = [()]
        for i in range(0, len(nodes), 3):
            self.paths.append(self.paths[nodes[i]] + (nodes[i + 1],))
        self.counts = nodes[2::3]

    def sums(self, weight):
        """Of each frame: self, total and count; a path counts once for each function on it."""
        sums = {frame: [0, 0, 0] for frame in range(len(self.frames))}
        for path, value, count in zip(self.paths[1:], self.values[weight], self.counts):
            sums[path[-1]][0] += value
            sums[path[-1]][2] += count
            for frame in set(path):
                sums[frame][1] += value
        return sums

    def around(self, weight, frame, step):
        """What comes before (-1) or after (1) the outermost call of a function, by its name."""
        found = {}
        for path, value in zip(self.paths[1:], self.values[weight]):
            if frame not in path:
                continue
            at = path.index(frame) + step
            if 0 <= at < len(path):
                name = self.frames[path[at]]
                found[name] = found.get(name, 0) + value
        return {name: value for name, value in found.items() if value > 0}


def check_functions(page):
    browser = page.browser
    paths = Paths(browser)
    expected = paths.sums(0)
    sums = browser.evaluate("JSON.stringify(flamegraph.functionSums().map(s => [...s.self.keys()].map("
                            "f => [s.self[f], s.total[f], s.count[f]])))")
    assert json.loads(sums)[0] == [expected[frame] for frame in range(len(paths.frames))]

    browser.click_on("#show_functions")
    names = "[...document.querySelectorAll('#rows button')].map(b => b.textContent)"
    by_self = browser.evaluate(names)
    assert len(by_self) == len(paths.frames)
    selfs = [expected[paths.frames.index(name)][0] for name in by_self]
    assert selfs == sorted(selfs, reverse=True)
    browser.click_on("th [data-key=total]")
    totals = [expected[paths.frames.index(name)][1] for name in browser.evaluate(names)]
    assert totals == sorted(totals, reverse=True)
    assert browser.evaluate("document.querySelector('th [data-key=total]').parentElement.ariaSort") == "descending"
    browser.click_on("th [data-key=total]")
    totals = [expected[paths.frames.index(name)][1] for name in browser.evaluate(names)]
    assert totals == sorted(totals)

    for frame in sorted(expected, key=lambda one: -expected[one][1])[::3]:
        name = paths.frames[frame]
        browser.evaluate(f"[...document.querySelectorAll('#rows button')].find(b => b.textContent === '{name}').click()")
        assert page.state("focus") == frame
        for which, step in (("caller", -1), ("callee", 1)):
            rects = page.frames(which)
            assert rects[0]["name"] == name and rects[0]["total"] == expected[frame][1], rects[0]
            around = {rect["name"]: rect["total"] for rect in rects if rect["depth"] == 1}
            least = expected[frame][1] / rects[0]["width"]  # half a pixel is the least that is drawn
            for other, value in paths.around(0, frame, step).items():
                assert around.get(other, value if value < least else None) == value, (name, other, value, around)
    page.search("mm")
    assert browser.evaluate(names) == [name for name in browser.evaluate(names) if "mm" in name.lower()] != []
    browser.key("Escape")
    browser.key("t")
    assert page.state("view") == "graph"


def check_sandwich_of_a_frame(page):
    """From the graph: double click, or s for the frame that the keys chose."""
    relu = page.frame("aten::relu")
    for count in (1, 2):
        page.browser.mouse("mousePressed", relu["x"] + 1, relu["y"] + 5, count)
        page.browser.mouse("mouseReleased", relu["x"] + 1, relu["y"] + 5, count)
    assert page.text("#focus").startswith("aten::relu"), page.text("#focus")
    page.browser.click_on("#show_graph")
    page.browser.evaluate("document.querySelector('#view').focus()")
    page.browser.key("Escape")
    page.browser.key("ArrowUp")
    chosen = page.selected()
    page.browser.key("s")
    assert page.text("#focus").startswith(chosen)
    page.browser.key("Escape")
    assert page.state("view") == "graph"


def check_links(page, url):
    browser = page.browser
    browser.call("Page.navigate", url="about:blank")  # else a new hash is no new page
    browser.open(url + "#w=count&v=functions&f=aten%3A%3Aaddmm&q=mm&o=name-up&side=nonsense&z=1e9")
    assert page.state("weight") == 1 and page.state("view") == "functions" and page.state("side") == "after"
    assert page.text("#focus").startswith("aten::addmm")
    assert page.zoomed() == "all" and page.state("sort.key") == "name"
    rows = browser.evaluate("[...document.querySelectorAll('#rows button')].map(b => b.textContent)")
    assert rows == sorted(rows, reverse=True) and all("mm" in name.lower() for name in rows), rows
    page.search("")
    browser.click_on("#show_graph")
    page.click(page.frame("aten::linear"))
    link = browser.evaluate("location.href")
    assert "w=count" in link and "z=" in link, link
    browser.evaluate("history.back()")
    browser.wait("flamegraph.zoomed() === 'all'")
    browser.call("Page.navigate", url="about:blank")
    browser.open(link)
    assert page.zoomed() == "aten::linear" and page.state("weight") == 1


def check_weights(page, url):
    """A recording with a GPU: its time leads to kernels, which lie on what asked for them."""
    page.browser.open(url)
    titles = page.browser.evaluate("[...document.querySelectorAll('#weight option')].map(o => o.textContent)")
    assert titles == ["CPU time", "GPU time", "Count"], titles
    assert not [f for f in page.frames() if f["name"].startswith("sgemm")]
    paths = Paths(page.browser)
    for weight in range(3):
        page.choose("#weight", weight)
        assert page.total() == sum(paths.values[weight])
    page.choose("#weight", 1)
    kernel = max((f for f in page.frames() if f["name"].startswith("sgemm")), key=lambda f: f["width"])
    addmm = page.frame("aten::addmm")
    assert kernel["depth"] == addmm["depth"] + 1 and abs(kernel["x"] - addmm["x"]) < 1
    assert "GPU time" in page.text("#subtitle") and "GPU" in page.text("#legend")


def pixels(page, frames):
    return page.browser.evaluate(
        "(() => { flamegraph.frameRects(); const c = document.querySelector('canvas'); const b = c.getBoundingClientRect();"
        f"return {json.dumps(frames)}.map(f => [...c.getContext('2d').getImageData("
        "(f.x + f.width - 2 - b.x) * devicePixelRatio, (f.y + 2 - b.y) * devicePixelRatio, 1, 1).data]); })()")


def check_comparison(page, url, same):
    browser = page.browser
    browser.open(url)
    assert browser.evaluate("!document.querySelector('#diff_tools').hidden")
    now, before = page.total(0), page.total(1)
    assert now != before
    assert "only in the recording before" in page.text("#notice")
    root = page.frame("all")
    assert root["total"] == now
    names = {f["name"] for f in page.frames()}
    page.choose("#side", "before")
    assert page.frame("all")["total"] == before
    assert {f["name"] for f in page.frames()} - names, "what only the other recording has is visible"
    page.choose("#side", "after")
    wide = [f for f in page.frames() if f["width"] > 8]
    by_total = pixels(page, wide)
    page.choose("#by", "self")
    assert pixels(page, wide) != by_total, "the colour is of another change"
    by_share = pixels(page, wide)
    page.choose("#scale", "none")
    assert pixels(page, wide) != by_share
    assert "scale=none" in browser.evaluate("location.hash")
    browser.click_on("#show_functions")
    titles = browser.evaluate("[...document.querySelectorAll('#columns button')].map(b => b.dataset.key)")
    assert titles[1:3] == ["totalChange", "selfChange"]
    marks = page.text("#rows")
    assert "[only before]" in marks and "[new]" in marks

    browser.open(same)
    for red, green, blue, _ in pixels(page, [f for f in page.frames() if f["width"] > 8]):
        assert red == green == blue, "nothing has changed: no colour"


def check_python(page, url):
    """Functions of Python have times, and no counts: nobody counted their calls."""
    page.browser.open(url)
    assert "Python" in page.text("#legend") and "module" in page.text("#legend")
    page.browser.click_on("#show_functions")
    cells = page.browser.evaluate("[...document.querySelectorAll('#rows tr')].map(r => [...r.cells].map(c => c.textContent))")
    kinds = {True: set(), False: set()}
    for name, _, _, count in cells:
        kinds[".py(" in name or name.startswith("nn.Module: ")].add(count == "")
    assert kinds == {True: {True}, False: {False}}, kinds
    function = next(name for name, *_ in cells if ".py(" in name)
    page.browser.evaluate(f"[...document.querySelectorAll('#rows button')].find(b => b.textContent === {json.dumps(function)}).click()")
    assert "self" in page.text("#focus") and "count" not in page.text("#focus").replace(function, "")


def check_many_paths(page, url):
    """A hundred thousand paths: it opens and draws fast, and draws no more than can be seen."""
    start = time.monotonic()
    page.browser.open(url)
    opened_s = time.monotonic() - start
    assert page.browser.evaluate("flamegraph.tree.size") > 80_000
    draw_ms = page.browser.evaluate("(() => { const t = performance.now(); flamegraph.frameRects(); return performance.now() - t; })()")
    frames = page.frames()
    print(f"many paths: opened in {opened_s:.2f} s, drawn in {draw_ms:.0f} ms, {len(frames)} frames")
    assert min(f["width"] for f in frames) >= 0.5
    assert opened_s < 20 and draw_ms < 2000, (opened_s, draw_ms)
    page.browser.click_on("#show_functions")
    assert page.browser.evaluate("document.querySelectorAll('#rows tr').length") == 300
    page.search("Größe<&\"'>")
    rows = page.browser.evaluate("[...document.querySelectorAll('#rows button')].map(b => b.textContent)")
    assert len(rows) == 1 and len(rows[0]) > 4000
    page.browser.click_on("#rows button")
    assert "of_a_template" in page.text("#focus")
    page.search("/(/")
    assert page.text("#matched") == "Not a regular expression"


def make_pages(program, proftrace, golden, folder):
    for kind, number in (("training", "20000"), ("random", "3"), ("deep", "500"), ("many", "100000"), ("python", "3")):
        os.mkdir(os.path.join(folder, kind))
        subprocess.run([program, os.path.join(folder, kind), kind, number], check=True)
    for name, after, before in (("gpu", "gpu", None), ("diff", "mlp", "workers"), ("same", "mlp", "mlp")):
        diff = [] if before is None else ["--diff", os.path.join(golden, before)]
        subprocess.run([proftrace, "export", os.path.join(golden, after), "--format", "flamegraph", *diff,
                        "-o", os.path.join(folder, name + ".html")], check=True, stderr=subprocess.DEVNULL)


def take_screenshots(page, path):
    base = os.path.splitext(path)[0]
    page.hover(page.frame("aten::addmm"))
    page.browser.screenshot(path)
    page.browser.click_on("#theme")
    page.browser.click_on("#icicle")
    page.search("addmm")
    page.click(page.frame("autograd::engine::evaluate_function: AddmmBackward0"))
    page.frames()
    page.browser.screenshot(base + "_dark.png")


def run(browser, folder):
    program, proftrace, golden, screenshot = (sys.argv[1:] + [""])[:4]
    make_pages(program, proftrace, golden, folder)
    page = Page(browser)
    url = f"file://{folder}"
    browser.open(f"{url}/training/flamegraph.html")
    browser.evaluate(
        "window.flamegraph_pixel = (x, y) => { const c = document.querySelector('canvas');"
        " const b = c.getBoundingClientRect(); const r = devicePixelRatio;"
        " return c.getContext('2d').getImageData((x - b.x) * r, (y - b.y) * r, 1, 1).data; }"
    )
    for check in (check_drawn, check_zoom, check_tooltip, check_search, check_icicle_and_dark, check_keyboard,
                  check_functions, check_sandwich_of_a_frame):
        do(check, page)
    if screenshot:
        take_screenshots(page, screenshot)
    do(check_links, page, f"{url}/training/flamegraph.html")
    do(check_nasty_names, page, f"{url}/random/flamegraph.html")
    do(check_deep_stack, page, f"{url}/deep/flamegraph.html")
    do(check_weights, page, f"{url}/gpu.html")
    do(check_python, page, f"{url}/python/flamegraph.html")
    do(check_comparison, page, f"{url}/diff.html", f"{url}/same.html")
    do(check_many_paths, page, f"{url}/many/flamegraph.html")
    do(check_no_complaints, browser)


if __name__ == "__main__":
    sys.exit(run_in_browser(run))
