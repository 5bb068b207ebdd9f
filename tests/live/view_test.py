#!/usr/bin/env python3
"""`proftrace view`: what it serves, to whom, with which rights, and what hostile clients get."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import live
from live import HERE, NOBODY, LiveTest, wait_until

GOLDEN = HERE.parent / "golden"
SERVING = re.compile(r"serving .* at http://127\.0\.0\.1:(\d+)/([0-9a-f]+)/$", re.MULTILINE)
USER = 23456  # who has nothing to do with the result
# What the environment of whoever runs the tests may say of screens and of ssh.
QUIET = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_TTY")}


def as_user(uid: int) -> tuple[str, ...]:
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")


class View:
    """A running `proftrace view`."""

    def __init__(self, *arguments: object, prefix: tuple[str, ...] = (), environment: dict[str, str] | None = None, cwd: Path | None = None) -> None:
        self.process = subprocess.Popen([*prefix, str(live.BINARY), "view", *map(str, arguments)], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, cwd=cwd, env={**QUIET, **(environment or {})})
        self.said = ""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if "^C ends it" in line:
                break
        found = SERVING.search(self.said)
        if found is None:
            self.process.wait()
            raise AssertionError(f"it does not serve: {self.said}")
        self.port, self.token = int(found.group(1)), found.group(2)

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        rest = self.process.communicate(timeout=live.STOP_S)[1]
        self.said += rest
        return self.process.returncode

    def get(self, name: str, token: str | None = None, method: str = "GET", headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=live.WORK_S)
        with contextlib.closing(client):
            client.request(method, f"/{self.token if token is None else token}/{name}", headers=headers or {})
            answer = client.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def ask(self, request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=live.WORK_S) as client:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(request)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while part := client.recv(65536):
                    answer += part
            return answer

    def status(self) -> dict[str, str]:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


class ViewTest(LiveTest):
    def result(self, name: str = "mlp", owner: int = 0) -> Path:
        """A result directory with nothing but its capture, which only its owner may enter."""
        path = self.directory / name
        path.mkdir()
        shutil.copy(GOLDEN / name / "capture.ptrec", path)
        (path / "capture.ptrec").chmod(0o600)
        for one in (path, path / "capture.ptrec"):
            os.chown(one, owner, owner)
        path.chmod(0o700)
        return path

    def exported(self, result: Path, kind: str) -> bytes:
        return subprocess.run([str(live.BINARY), "export", str(result), "--format", kind, "-o", "-"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=True).stdout

    def test_what_is_served_is_what_export_writes(self) -> None:
        result = self.result()
        with View(result) as view:
            status, headers, page = view.get("")
            self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
            self.assertIn("connect-src 'self'", headers["Content-Security-Policy"])
            self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
            self.assertEqual((headers["Referrer-Policy"], headers["Cache-Control"]), ("no-referrer", "no-store"))
            head, _, rest = self.exported(result, "report").partition(b"<meta http-equiv=\"Content-Security-Policy\"")
            self.assertTrue(page.startswith(head))
            self.assertTrue(page.endswith(rest.partition(b">")[2]))
            self.assertIn(b'<script src="view.js" defer>', page[len(head):len(head) + 2000])
            self.assertEqual(view.get("report.html")[2], page)
            trace = view.get("trace.json.gz")
            self.assertEqual(trace[1]["Content-Type"], "application/gzip")
            self.assertEqual(gzip.decompress(trace[2]), self.exported(result, "chrome"))
            profile = view.get("profile.speedscope.json")
            self.assertEqual(profile[2], self.exported(result, "speedscope"))
            self.assertEqual(profile[1]["Access-Control-Allow-Origin"], "https://www.speedscope.app")
            self.assertNotIn("Access-Control-Allow-Origin", {**headers, **trace[1]})
            self.assertEqual(view.get("", method="HEAD")[1]["Content-Length"], str(len(page)))
            part = view.get("trace.json.gz", headers={"Range": "bytes=10-19"})
            self.assertEqual((part[0], part[2]), (206, trace[2][10:20]))
            self.assertEqual(view.stop(), 0)
        self.assertEqual(view.process.stdout.read() if view.process.stdout and not view.process.stdout.closed else "", "")

    def test_files_that_are_there_are_not_made_anew(self) -> None:
        result = self.result()
        subprocess.run([str(live.BINARY), "export", str(result), "--format", "report,chrome,speedscope", "-o", str(result)], check=True, capture_output=True)
        (result / "capture.ptrec").unlink()
        with View(result) as view:
            self.assertNotIn("making", view.said)
            self.assertEqual(view.get("trace.json.gz")[2], (result / "trace.json.gz").read_bytes())
        (result / "report.html").write_text("<html>of somebody else</html>")
        self.assert_fails(8, ("view", result), "not a page of proftrace")

    def test_no_rights_are_kept(self) -> None:
        """Root becomes the result's owner, or nobody, before it listens; it has no capability and can gain none."""
        for name, owner, expected in (("mlp", 0, NOBODY), ("workers", USER, USER)):
            with self.subTest(owner=owner), View(self.result(name, owner)) as view:
                status = view.status()
                self.assertEqual(status["Uid"].split(), [str(expected)] * 4)
                self.assertEqual(status["Gid"].split(), [str(expected)] * 4)
                self.assertEqual(status["Groups"].split(), [str(expected)])
                for which in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                    self.assertEqual(int(status[which], 16), 0, which)
                self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
                self.assertEqual(view.get("")[0], 200)

    def test_sudo_gives_the_server_to_who_called(self) -> None:
        sudo = {"SUDO_UID": str(USER), "SUDO_GID": str(USER)}
        with View(self.result(owner=0), environment=sudo) as view:
            self.assertEqual(view.status()["Uid"].split(), [str(USER)] * 4)
            self.assertEqual(view.get("")[0], 200)

    def test_roots_own_sudo_is_no_caller(self) -> None:
        told, environment = self.fake_browser()
        with View(self.result(owner=0), environment={**environment, "SUDO_UID": "0", "SUDO_GID": "0"}) as view:
            self.assertEqual(view.status()["Uid"].split(), [str(NOBODY)] * 4)
            self.assertIn("ssh -L", view.said)
        self.assertFalse(told.exists())

    def test_only_this_machine_can_connect(self) -> None:
        with View(self.result()) as view:
            listens = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"]
            self.assertIn(f"0100007F:{view.port:04X}", listens)
            self.assertNotIn(f"00000000:{view.port:04X}", listens)

    def test_another_user_cannot_read_it(self) -> None:
        """Somebody else on the machine sees the port and the process: no request of theirs gives anything, and the process shows
        neither the token nor the files, also to other processes of the user as whom it runs."""
        look = """
import http.client, os, sys
pid, port, token = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
for path in ('/', '/report.html', '/trace.json.gz', '/' + '0' * len(token) + '/', '/..//', '/%2e%2e/', '/view.js'):
    client = http.client.HTTPConnection('127.0.0.1', port, timeout=20)
    client.request('GET', path)
    answer = client.getresponse()
    assert answer.status == 404 and answer.read() == b'Not Found\\n', (path, answer.status)
assert token.encode() not in open(f'/proc/{pid}/cmdline', 'rb').read()
for name in ('environ', 'maps', 'mem', 'fd'):
    try:
        os.listdir(f'/proc/{pid}/{name}') if name == 'fd' else open(f'/proc/{pid}/{name}', 'rb').read(1)
    except PermissionError:
        continue
    raise AssertionError(f'user {os.getuid()} reads {name}')
"""
        with View(self.result()) as view:
            for uid in (USER, NOBODY):
                # The token is given for the comparison alone: it is not in what the looks find.
                done = subprocess.run([*as_user(uid), sys.executable, "-c", look, str(view.process.pid), str(view.port), view.token],
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(view.get("")[0], 200)

    def test_hostile_requests(self) -> None:
        with View(self.result()) as view:
            secret = f"/{view.token}/".encode()
            host = b"Host: 127.0.0.1\r\n"
            for request, status in (
                    (b"GET " + secret + b" HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
                    (b"GET " + secret + b" HTTP/1.1\r\nHost: evil.example:%d\r\n\r\n" % view.port, 421),
                    (b"GET " + secret + b" HTTP/1.1\r\n\r\n", 400),
                    (b"GET " + secret + b" HTTP/1.1\r\n" + host + host + b"\r\n", 400),
                    (b"POST " + secret + b" HTTP/1.1\r\n" + host + b"Content-Length: 3\r\n\r\nabc", 405),
                    (b"OPTIONS " + secret + b" HTTP/1.1\r\n" + host + b"\r\n", 405),
                    (b"CONNECT 127.0.0.1:22 HTTP/1.1\r\n" + host + b"\r\n", 405),
                    (b"GET http://127.0.0.1" + secret + b" HTTP/1.1\r\n" + host + b"\r\n", 400),
                    (b"GET " + secret + b"../../etc/passwd HTTP/1.1\r\n" + host + b"\r\n", 404),
                    (b"GET " + secret + b"%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + host + b"\r\n", 404),
                    (b"GET " + secret + b"capture.ptrec HTTP/1.1\r\n" + host + b"\r\n", 404),
                    (b"GET " + secret[:-1] + b" HTTP/1.1\r\n" + host + b"\r\n", 404),
                    (b"GET " + secret + b"report.html/ HTTP/1.1\r\n" + host + b"\r\n", 404),
                    (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + host + b"\r\n", 431),
                    (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000, 431),
                    (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
                    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
                    (b"GET " + secret + b"\r\n\r\n", 400),
                    (os.urandom(3000).replace(b"\n", b"") + b"\r\n\r\n", 400)):
                with self.subTest(request=request[:60]):
                    self.assertRegex(view.ask(request), rf"\AHTTP/1\.1 {status} ".encode())
            self.assertEqual(view.get("")[0], 200)
            self.assertEqual(view.stop(), 0)

    def test_slow_and_many_clients_keep_nobody_out(self) -> None:
        """300 connections that send a byte now and then, and 50 that ask for the report and do not read: pages come all the same."""
        stop = threading.Event()
        with View(self.result()) as view, contextlib.ExitStack() as clients:
            def drip() -> None:
                slow: list[socket.socket] = []
                while not stop.is_set():
                    if len(slow) < 300:
                        slow.append(clients.enter_context(socket.create_connection(("127.0.0.1", view.port))))
                    for one in slow[-40:]:
                        with contextlib.suppress(OSError):
                            one.send(b"G")

            thread = threading.Thread(target=drip)
            thread.start()
            try:
                for _ in range(50):
                    lazy = clients.enter_context(socket.create_connection(("127.0.0.1", view.port)))
                    lazy.sendall(f"GET /{view.token}/report.html HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                for _ in range(20):
                    begun = time.monotonic()
                    self.assertEqual(view.get("trace.json.gz")[0], 200)
                    self.assertLess(time.monotonic() - begun, 10)
            finally:
                stop.set()
                thread.join()
            descriptors = len(os.listdir(f"/proc/{view.process.pid}/fd"))
            self.assertLess(descriptors, 100)

    def test_a_large_trace_is_not_held_in_memory(self) -> None:
        trace = self.directory / "large.json"
        trace.write_bytes(b"[")
        bytes_ = 1_200_000_000
        os.truncate(trace, bytes_)
        with View(trace) as view:
            client = http.client.HTTPConnection("127.0.0.1", view.port, timeout=live.WORK_S)
            with contextlib.closing(client):
                client.request("GET", f"/{view.token}/trace.json")
                answer = client.getresponse()
                got = 0
                while part := answer.read(1 << 20):
                    got += len(part)
            self.assertEqual(got, bytes_)
            most_kb = int(view.status()["VmHWM"].split()[0])
            self.assertLess(most_kb, 100_000)
            self.assertEqual(view.get("trace.json", headers={"Range": f"bytes={bytes_ - 3}-"})[2], b"\0\0\0")
            self.assertEqual(view.stop(), 0)
            self.assertIn("trace_processor --httpd", view.said)

    def test_nothing_is_left_of_what_was_made(self) -> None:
        places = self.directory / "tmp"
        places.mkdir(mode=0o777)
        places.chmod(0o1777)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            result = self.result(("mlp", "workers", "names")[(signal.SIGINT, signal.SIGTERM, signal.SIGKILL).index(number)])
            with View(result, environment={"TMPDIR": str(places)}) as view:
                self.assertIn("making report.html, trace.json.gz, profile.speedscope.json", view.said)
                self.assertEqual(list(places.iterdir()), [])
                self.assertEqual(view.get("")[0], 200)
                self.assertEqual(view.stop(number), -signal.SIGKILL if number == signal.SIGKILL else 0)
            self.assertEqual(list(places.iterdir()), [])
            self.assertEqual([path.name for path in result.iterdir()], ["capture.ptrec"])

    def test_captures_archives_and_traces(self) -> None:
        result = self.result()
        whole = self.exported(result, "report")
        with View(result / "capture.ptrec") as view:
            self.assertEqual(view.get("")[2][-1000:], whole[-1000:])
        with tarfile.open(self.directory / "r.tar", "w") as archive:
            archive.add(result, "r")
        with View(self.directory / "r.tar") as view:
            self.assertEqual(view.get("")[2][-1000:], whole[-1000:])
        subprocess.run([str(live.BINARY), "export", str(result), "--format", "report,chrome", "-o", str(result)], check=True, capture_output=True)
        with tarfile.open(self.directory / "all.tar", "w") as archive:
            archive.add(result, "r")
        with View(self.directory / "all.tar") as view:  # out of the archive itself
            self.assertIn("making profile.speedscope.json", view.said)
            self.assertEqual(view.get("trace.json.gz")[2], (result / "trace.json.gz").read_bytes())
            self.assertEqual(view.get("")[2][-1000:], whole[-1000:])
        merged = self.directory / "job.json.gz"
        self.assertEqual(self.run_proftrace("merge", result, "-o", merged).returncode, 0)
        with View(merged) as view:
            page = view.get("")[2].decode()
            self.assertIn("job.json.gz", page)
            facts = json.loads(re.search(r'id="view" type="application/json">(.*?)</script>', page).group(1))  # type: ignore[union-attr]
            self.assertEqual(facts["trace"], {"name": "trace.json.gz", "bytes": merged.stat().st_size})
            self.assertIsNone(facts["speedscope"])
            self.assertEqual(view.get("trace.json.gz")[2], merged.read_bytes())
            self.assertEqual(view.get("report.html")[0], 404)

    def test_a_hostile_name_is_only_shown(self) -> None:
        result = self.result()
        hostile = self.directory / "<img src=x onerror=alert(1)>\x1b[31m"
        result.rename(hostile)
        with View(hostile) as view:
            self.assertNotIn("\x1b", view.said)
            self.assertNotIn(b"<img src=x", view.get("")[2])

    def test_what_cannot_be_shown(self) -> None:
        (self.directory / "text").write_text("words\n")
        (self.directory / "empty").mkdir()
        (self.directory / "nothing").write_bytes(b"")
        (self.directory / "summary.json").write_text('{"steps": {"count": 3}}')  # JSON, and no trace
        with tarfile.open(self.directory / "other.tar", "w") as archive:
            archive.add(self.directory / "text", "text")
        os.mkfifo(self.directory / "pipe")
        for name in ("text", "empty", "nothing", "summary.json", "other.tar", "pipe", "missing"):
            self.assert_fails(8, ("view", name), name, "give a result directory")
        shutil.copy(GOLDEN / "mlp" / "capture.ptrec", self.directory / "cut.ptrec")
        whole = (self.directory / "cut.ptrec").stat().st_size
        os.truncate(self.directory / "cut.ptrec", whole - 10)
        done = self.run_proftrace("view", "cut.ptrec")
        self.assertEqual(done.returncode, 8, done.stderr)
        with View("cut.ptrec", "--salvage", cwd=self.directory) as view:
            self.assertIn("what is whole is shown", view.said)
            self.assertEqual(view.get("")[0], 200)
        os.truncate(self.directory / "cut.ptrec", 5000)
        done = self.run_proftrace("view", "cut.ptrec", "--salvage")
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertIn("nothing of it is whole", done.stderr)
        result = self.result()
        for arguments, code, words in ((("--perfetto-ui", "ftp://x/"), 2, "--perfetto-ui"), (("--speedscope-ui", "https://a b/"), 2, "--speedscope-ui"),
                                       (("--perfetto-ui", self.directory / "empty"), 2, "index.html"),
                                       (("--perfetto-ui", self.directory / "missing"), 2, "No such file"), (("--port", "70000"), 2, "--port")):
            self.assert_fails(code, ("view", result, *arguments), words)
        with socket.socket() as used:
            used.bind(("127.0.0.1", 0))
            used.listen()
            done = self.run_proftrace("view", result, "--port", used.getsockname()[1])
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("leave out --port", done.stderr)

    def test_a_local_copy_of_a_page(self) -> None:
        """Its files are served by their names, and nothing else: no link out of it, no folder as a list."""
        folder = self.directory / "ui"
        (folder / "v1" / "assets").mkdir(parents=True)
        (folder / "index.html").write_text("<p>UI</p>")
        (folder / "v1" / "assets" / "x.wasm").write_bytes(b"\0asm")
        (folder / ".hidden").write_text("no")
        (folder / "link").symlink_to("/etc/passwd")
        (folder / "outside").symlink_to("/etc")
        with View(self.result(), "--perfetto-ui", folder) as view:
            self.assertEqual(view.get("perfetto/")[2], b"<p>UI</p>")
            status, headers, body = view.get("perfetto/v1/assets/x.wasm")
            self.assertEqual((status, headers["Content-Type"], body), (200, "application/wasm", b"\0asm"))
            self.assertIn("connect-src 'self'", headers["Content-Security-Policy"])
            for name in ("perfetto", "perfetto/v1", "perfetto/v1/", "perfetto/link", "perfetto/outside/passwd", "perfetto/.hidden", "perfetto/../trace.json.gz"):
                self.assertEqual(view.get(name)[0], 404, name)

    def fake_browser(self) -> tuple[Path, dict[str, str]]:
        """A program that stands for the desktop's, and the environment of somebody with a screen."""
        folder = self.directory / "programs"
        folder.mkdir()
        seen = self.directory / "seen"
        seen.mkdir(mode=0o777)
        seen.chmod(0o777)
        program = folder / "xdg-open"
        program.write_text(f'#!/bin/sh\n{{ id -u; stat -c "%a %u" "$1"; printf "%s\\n" "$*"; cat "$1"; }} > {seen}/part && mv {seen}/part {seen}/told\n')
        program.chmod(0o755)
        self.directory.chmod(0o755)
        return seen / "told", {"PATH": f"{folder}:{os.environ['PATH']}", "DISPLAY": ":9", "TMPDIR": "/tmp", "XDG_RUNTIME_DIR": ""}

    def test_the_browser_is_the_users_and_its_arguments_tell_nobody(self) -> None:
        told, environment = self.fake_browser()
        for prefix, more, number in ((as_user(USER), {}, signal.SIGINT), ((), {"SUDO_UID": str(USER), "SUDO_GID": str(USER)}, signal.SIGKILL)):
            with self.subTest(prefix=prefix):
                result = self.result("workers" if prefix else "mlp", USER)
                with View(result, prefix=prefix, environment={**environment, **more}) as view:
                    self.assertIn("the browser opens it", view.said)
                    wait_until(told.exists, live.WORK_S, "the browser was not opened")
                    uid, facts, arguments, *page = told.read_text().splitlines()
                    self.assertEqual((uid, facts), (str(USER), f"600 {USER}"))
                    self.assertNotIn(view.token, arguments)
                    self.assertIn(f"url=http://127.0.0.1:{view.port}/{view.token}/", "\n".join(page))
                    redirect = Path(arguments)
                    self.assertEqual(stat.S_IMODE(redirect.stat().st_mode), 0o600)
                    view.stop(number)
                    wait_until(lambda: not redirect.exists(), live.WORK_S, "the file that leads to the page is still there")
                told.unlink()

    def test_root_has_no_browser_and_over_ssh_it_is_said_how(self) -> None:
        told, environment = self.fake_browser()
        with View(self.result(), environment=environment) as view:
            self.assertIn(f"ssh -L {view.port}:127.0.0.1:{view.port} ", view.said)
        connection = {"SSH_CONNECTION": "192.0.2.1 50000 192.0.2.7 22"}
        with View(self.result("workers", USER), prefix=as_user(USER), environment={**environment, **connection}) as view:
            self.assertIn(f"ssh -L {view.port}:127.0.0.1:{view.port} 192.0.2.7", view.said)
        with View(self.result("names", USER), "--no-browser", prefix=as_user(USER), environment=environment) as view:
            self.assertIn("ssh -L", view.said)
        self.assertFalse(told.exists())


if __name__ == "__main__":
    live.run()
