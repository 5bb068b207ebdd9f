#!/usr/bin/env python3
"""Uses flamegraph.html as a reader does, in headless Chromium: zoom, reset, search, icicle, dark, tooltip, keys.

Usage: flamegraph_page_test.py WRITE_OUTPUTS_PROGRAM [SCREENSHOT.png]
Needs chromium (Debian: package chromium), nothing else: DevTools is spoken over a pipe. Exits with 77 without it.
"""

import base64
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

SKIP = 77
DEADLINE_S = 60
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--window-size=1200,800", "--remote-debugging-pipe",
]


class Browser:
    """One tab of a headless Chromium. Messages are JSON, each ended by NUL, on descriptors 3 and 4 of the browser."""

    def __init__(self, program, profile):
        to_browser, self.out = os.pipe()
        self.input, from_browser = os.pipe()

        def place_pipes():
            # By way of high numbers, since 3 and 4 may be among the pipes' own.
            low, high = os.dup2(to_browser, 103), os.dup2(from_browser, 104)
            os.dup2(low, 3)
            os.dup2(high, 4)

        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(3, 4), preexec_fn=place_pipes, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.next_id = 0
        self.events = []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=DEADLINE_S)

    def receive(self):
        deadline = time.monotonic() + DEADLINE_S
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.input], [], [], max(deadline - time.monotonic(), 0))
            part = os.read(self.input, 1 << 20) if ready else b""
            if not part:
                raise RuntimeError("the browser does not answer")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && window.flamegraph !== undefined")

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, condition):
        deadline = time.monotonic() + DEADLINE_S
        while not self.evaluate(f"Boolean({condition})"):
            if time.monotonic() > deadline:
                raise RuntimeError("never true: " + condition)

    def mouse(self, kind, x, y):
        buttons = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **buttons)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def click_on(self, selector):
        box = self.evaluate(f"JSON.stringify(document.querySelector('{selector}').getBoundingClientRect())")
        box = json.loads(box)
        self.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


class Page:
    """The flame graph in the browser, in its own words."""

    def __init__(self, browser):
        self.browser = browser

    def frames(self):
        return self.browser.evaluate("flamegraph.frameRects()")

    def frame(self, name, depth=None):
        found = [f for f in self.frames() if f["name"] == name and depth in (None, f["depth"])]
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
    assert page.state("zoom.name") == "aten::linear"
    zoomed = page.frame("aten::linear")
    assert abs(zoomed["width"] - page.frame("all")["width"]) < 1, "the zoomed frame spans the page"
    assert page.frame("aten::addmm")["width"] > 300
    assert not any(f["name"] == "aten::relu" for f in page.frames()), "what is beside it is gone"
    assert "aten::linear" in page.text("#details")
    page.browser.click_on("#reset")
    assert page.state("zoom.name") == "all"
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
    page.browser.evaluate("document.querySelector('#search').value = '/^aten::(t|relu)$/'")
    page.browser.evaluate("document.querySelector('#search').dispatchEvent(new Event('input'))")
    assert {f["name"] for f in page.frames() if f["matched"]} == {"aten::t", "aten::relu"}
    page.browser.key("Escape")
    assert page.text("#matched") == "" and page.state("matches") is None


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
    largest = page.state("selected.name")
    assert largest == max((f for f in page.frames() if f["depth"] == 1), key=lambda f: f["width"])["name"]
    page.browser.key("Enter")
    assert page.state("zoom.name") == largest
    page.browser.key("ArrowDown")
    assert page.state("selected.name") == "all"
    page.browser.key("Escape")
    assert page.state("zoom.name") == "all"


def check_no_complaints(browser):
    for event in browser.events:
        assert event["method"] not in ("Runtime.exceptionThrown", "Log.entryAdded"), event
        if event["method"] == "Network.requestWillBeSent":
            url = event["params"]["request"]["url"]
            assert url.startswith(("file:", "data:", "about:")), f"the page asked for {url}"


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
    assert page.browser.evaluate(f"{view}.scrollTop") > 10_000, "it opens at the root"
    page.frame("all")
    page.browser.evaluate(f"{view}.scrollTop = 0")
    top = page.browser.evaluate("document.querySelector('canvas').getBoundingClientRect().y")
    assert 0 <= top < 120, f"the canvas stays in view: {top}"
    leaf = page.frame("level 999")
    assert 0 <= leaf["y"] - top < 40, leaf
    page.click(leaf)
    assert page.state("zoom.name") == "level 999"


def run(program, browser_program, screenshot):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for kind, number in (("training", "20000"), ("random", "3"), ("deep", "1000")):
            os.mkdir(os.path.join(folder, kind))
            subprocess.run([program, os.path.join(folder, kind), kind, number], check=True)
        browser = Browser(browser_program, os.path.join(folder, "profile"))
        try:
            browser.open(f"file://{folder}/training/flamegraph.html")
            browser.evaluate(
                "window.flamegraph_pixel = (x, y) => { const c = document.querySelector('canvas');"
                " const b = c.getBoundingClientRect(); const r = devicePixelRatio;"
                " return c.getContext('2d').getImageData((x - b.x) * r, (y - b.y) * r, 1, 1).data; }"
            )
            page = Page(browser)
            for check in (check_drawn, check_zoom, check_tooltip, check_search, check_icicle_and_dark, check_keyboard):
                check(page)
                print(f"ok: {check.__name__}")
            if screenshot:
                page.hover(page.frame("aten::addmm"))
                browser.screenshot(screenshot)
                page.browser.click_on("#theme")
                page.browser.click_on("#icicle")
                page.browser.evaluate("document.querySelector('#search').value = 'addmm'")
                page.browser.evaluate("document.querySelector('#search').dispatchEvent(new Event('input'))")
                page.click(page.frame("autograd::engine::evaluate_function: AddmmBackward0"))
                page.frames()
                browser.screenshot(os.path.splitext(screenshot)[0] + "_dark.png")
            check_nasty_names(page, f"file://{folder}/random/flamegraph.html")
            print("ok: check_nasty_names")
            if screenshot:
                browser.screenshot(os.path.splitext(screenshot)[0] + "_random.png")
            check_deep_stack(page, f"file://{folder}/deep/flamegraph.html")
            print("ok: check_deep_stack")
            check_no_complaints(browser)
            print("ok: check_no_complaints")
        finally:
            browser.close()


def main():
    browser_program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser_program is None:
        print("skipped: no chromium here (package chromium)")
        return SKIP
    run(sys.argv[1], browser_program, sys.argv[2] if len(sys.argv) > 2 else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
