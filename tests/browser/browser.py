"""Headless Chromium for tests: DevTools is spoken over a pipe, so nothing but chromium (Debian: package chromium) is needed."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

DEADLINE_S = 60
SKIP = 77
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--window-size=1200,800", "--remote-debugging-pipe",
]


class Pipe:
    """The browser's process, and the messages to and from it."""

    def __init__(self, program, profile, flags):
        to_browser, self.out = os.pipe()
        self.input, from_browser = os.pipe()

        def place_pipes():
            # By way of high numbers, since 3 and 4 may be among the pipes' own.
            low, high = os.dup2(to_browser, 103), os.dup2(from_browser, 104)
            os.dup2(low, 3)
            os.dup2(high, 4)

        self.process = subprocess.Popen(
            [program, *FLAGS, *flags, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(3, 4), preexec_fn=place_pipes, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.next_id = 0
        self.events = {}  # by session

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

    def call(self, session, method, params):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.setdefault(answer.get("sessionId"), []).append(answer)


class Tab:
    """A page that a browser shows."""

    def __init__(self, pipe, target):
        self.pipe = pipe
        self.target = target
        self.session = pipe.call(None, "Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    @property
    def events(self):
        return self.pipe.events.get(self.session, [])

    def events_of(self, method):
        return [event for event in self.events if event["method"] == method]

    def call(self, method, **params):
        return self.pipe.call(self.session, method, params)

    @contextlib.contextmanager
    def new_tab(self):
        """A tab of its own, which is closed in the end."""
        target = self.pipe.call(None, "Target.createTarget", {"url": "about:blank"})["targetId"]
        yield Tab(self.pipe, target)
        self.pipe.call(None, "Target.closeTarget", {"targetId": target})

    @contextlib.contextmanager
    def opened_by(self, act, part):
        """The tab that `act` opens, whose address has `part` in it. It is closed in the end."""
        before = {target["targetId"] for target in self.pipe.call(None, "Target.getTargets", {})["targetInfos"]}
        act()
        deadline = time.monotonic() + DEADLINE_S
        while True:
            targets = self.pipe.call(None, "Target.getTargets", {})["targetInfos"]
            found = [target["targetId"] for target in targets if target["targetId"] not in before and part in target["url"]]
            if found:
                break
            if time.monotonic() > deadline:
                raise RuntimeError(f"no tab was opened at {part}: {targets}")
        yield Tab(self.pipe, found[0])
        self.pipe.call(None, "Target.closeTarget", {"targetId": found[0]})

    def open(self, url, page="flamegraph"):
        """`page`: the name that the page has in its window once it can be used."""
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && window.{page} !== undefined")

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

    def mouse(self, kind, x, y, clicks=1):
        buttons = {} if kind == "mouseMoved" else {"button": "left", "clickCount": clicks}
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


class Browser(Tab):
    """A headless Chromium with one tab. Messages are JSON, each ended by NUL, on descriptors 3 and 4 of the browser."""

    def __init__(self, program, profile, flags=()):
        pipe = Pipe(program, profile, flags)
        super().__init__(pipe, pipe.call(None, "Target.createTarget", {"url": "about:blank"})["targetId"])

    def close(self):
        self.pipe.process.terminate()
        self.pipe.process.wait(timeout=DEADLINE_S)


def run_in_browser(run, flags=()):
    """Runs `run` with a browser and a folder for its files. Returns the exit code; SKIP without chromium."""
    program = find_chromium()
    if program is None:
        print("skipped: no chromium here (package chromium)")
        return SKIP
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(program, os.path.join(folder, "profile"), flags)
        try:
            run(browser, folder)
        finally:
            browser.close()
    return 0


def do(check, *arguments):
    """Runs one check and tells of it."""
    check(*arguments)
    print(f"ok: {check.__name__}", flush=True)


def find_chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def check_no_complaints(browser):
    for event in browser.events:
        if event["method"] == "Log.entryAdded" and "getImageData" in event["params"]["entry"]["text"]:
            continue  # of the test, which reads pixels
        assert event["method"] not in ("Runtime.exceptionThrown", "Log.entryAdded"), event
        if event["method"] == "Network.requestWillBeSent":
            url = event["params"]["request"]["url"]
            assert url.startswith(("file:", "data:", "about:")), f"the page asked for {url}"
