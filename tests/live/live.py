"""What the live tests share: the recorded job, `proftrace record` as a process, what it left, and why they cannot run.

Environment: PROFTRACE_BINARY (default: the release build's), PROFTRACE_ORACLE_PYTHON or PROFTRACE_PYTHON (the first one
that has torch; default: /usr/bin/python3), PROFTRACE_LIVE_PATIENCE, PROFTRACE_LIVE_PLANS (a directory for plans that several
files share; default: each file makes them anew), PROFTRACE_LIVE_FRESH=1 (each job imports torch itself).
"""

from __future__ import annotations

import collections
import contextlib
import csv
import ctypes
import errno
import functools
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path
from typing import Callable, Iterator

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))

from forked_job import ForkedJob, JobServer  # noqa: E402
from process import LineReader, Stopped  # noqa: E402

JOB = HERE / "job.py"
# Run by sudo the tests are root's all the same, and so are the commands that they have recorded.
for sudo in ("SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND"):
    os.environ.pop(sudo, None)

BINARY = Path(os.environ.get("PROFTRACE_BINARY", HERE.parents[1] / "build/release/bin/proftrace"))
SKIP = 77
MOST_BYTES_TOLD = 10
# What records does it by the kernel's probes unless a test says how, or PROFTRACE_LIVE_TIER: by jumps (patch), or as it chooses (auto).
TIER = ("--tier", os.environ.get("PROFTRACE_LIVE_TIER", "bpf"))
# PROFTRACE_LIVE_PATIENCE: how many times as long as a quiet machine needs is waited at most.
START_S, READY_S, WORK_S, STOP_S = (seconds * float(os.environ.get("PROFTRACE_LIVE_PATIENCE", "4"))
                                    for seconds in (30.0, 15.0, 20.0, 15.0))
NOBODY = 65534
HAS_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
# Namespaces for the command that follows. In a chroot / is no mount, and how mounts spread cannot be set from there: so it is
# set on the mount that is changed.
ROOT_IS_MOUNT = any(line.split()[4] == "/" for line in Path("/proc/self/mountinfo").read_text().splitlines())
OWN_MOUNTS = ("unshare", "--mount", *(() if ROOT_IS_MOUNT else ("--propagation", "unchanged")))
CONTAINER = (*OWN_MOUNTS, "--pid", "--fork", "--kill-child", "sh", "-c",
             'mount --make-private /proc && mount -t proc proc /proc && exec "$0" "$@"')
# Runs what follows under a seccomp filter that allows everything, as a container's runtime does.
UNDER_A_FILTER = """import ctypes, os, struct, sys
code = struct.pack("=HBBI", 6, 0, 0, 0x7fff0000)
text = ctypes.create_string_buffer(code, len(code))
program = struct.pack("@HP", 1, ctypes.addressof(text))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.create_string_buffer(program, len(program)), 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""


@functools.cache
def nobody() -> tuple[str, ...]:
    """Another user for the command that follows. One that may read all files where the tests or their Python lie in a home that
    is closed to others."""
    user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    sees = "import sys; [open(path).close() for path in sys.argv[1:]]"
    for more in ((), ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")):
        command = [*user, *more, LiveTest.python, "-c", sees, str(JOB), str(BINARY)]
        if subprocess.run(command, capture_output=True).returncode == 0:
            return (*user, *more)
    raise Stopped(f"user {NOBODY} cannot read {JOB}")


def find_python() -> str | None:
    """The first interpreter that has torch. It is not imported, which takes seconds: one that is broken is no reason to skip."""
    candidates = os.environ.get("PROFTRACE_ORACLE_PYTHON", "").split(";")
    candidates += [os.environ.get("PROFTRACE_PYTHON", ""), "/usr/bin/python3"]
    for candidate in filter(None, candidates):
        with contextlib.suppress(OSError):
            if subprocess.run([candidate, "-c", HAS_TORCH], capture_output=True).returncode == 0:
                return candidate
    return None


def cuda_of_torch() -> str:
    """The major version of the CUDA that the interpreter's torch was built with; "" = without."""
    program = ("import importlib.util, pathlib, re\n"
               "spec = importlib.util.find_spec('torch')\n"
               "text = (pathlib.Path(spec.origin).parent / 'version.py').read_text()\n"
               "print(''.join(re.findall(r\"^cuda.*= '(\\d+)\", text, re.MULTILINE)))\n")
    python = find_python()
    return subprocess.run([python, "-c", program], check=True, capture_output=True, text=True).stdout.strip() if python else ""


def cupti_double(major: str) -> Path:
    """The stand-in for the CUPTI of that CUDA: it is there where CUPTI's headers were found."""
    folder = os.environ.get("PROFTRACE_CUPTI_DOUBLES") or BINARY.parents[1] / "tests/support/cupti_double"
    return Path(folder) / major / f"libcupti.so.{major}"


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise Stopped(f"after {timeout_s:g} s still not: {what}")
        time.sleep(0.002)


def job_variables(more: dict[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **(more or {})}


@functools.cache
def job_server() -> JobServer:
    return JobServer(LiveTest.python, job_variables())


class Job:
    """job.py as a process. Leaving the context ends it. It is a fork of one that has imported torch, unless it is `fresh` or has a
    prefix."""

    is_fresh = os.environ.get("PROFTRACE_LIVE_FRESH") == "1"

    def __init__(self, prefix: tuple[str, ...] = (), environment: dict[str, str] | None = None, script: Path = JOB,
                 fresh: bool = False) -> None:
        variables = job_variables(environment)
        self.process: subprocess.Popen[bytes] | ForkedJob
        if prefix or fresh or Job.is_fresh or "LD_PRELOAD" in (environment or {}):
            self.process = subprocess.Popen([*prefix, LiveTest.python, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            env=variables, cwd=HERE, start_new_session=True)
        else:
            self.process = job_server().start(script, variables, START_S)
        assert self.process.stdout is not None
        self.lines = LineReader(self.process.stdout)
        # In the job's own PID namespace; with a prefix that forks, not the PID of `process`.
        self.own_pid = int(self.lines.wait(r"READY (\d+)", START_S).group(1))
        self.pid = self.process.pid

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *error: object) -> None:
        # With what is left of its children, which have its pipes too.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.lines.close()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, str]:
        """The words of the next DONE line."""
        line = self.lines.wait(r"^DONE .*", WORK_S).group(0)
        return dict(word.split("=", 1) for word in line.split() if "=" in word)

    def do(self, line: str) -> dict[str, str]:
        self.tell(line)
        return self.answer()

    def finish_loop(self) -> dict[str, str]:
        """Ends `loop` or `raising`."""
        self.tell("fds")
        return {**self.answer(), **self.answer()}

    def end(self) -> int:
        """Closes stdin; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None
        return self.process.wait(STOP_S)


def by_jumps() -> bool:
    return "patch" in TIER


def with_tier(arguments: tuple[object, ...]) -> list[str]:
    """The words of a proftrace command; of one that records with TIER, if it does not say how."""
    words = [str(argument) for argument in arguments]
    if (words[:1] != ["record"] and not words[0].startswith("-")) or "--tier" in words:
        return words
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], *TIER, *words[end:]]


class Switch(str):
    """A word of PROFTRACE_TEST_SWITCHES, given among the arguments."""


def without_switches(arguments: tuple[object, ...], options: dict[str, object]) -> tuple[object, ...]:
    """The arguments without their switches, which go into the environment of `options`."""
    words = [word for word in arguments if isinstance(word, Switch)]
    if words:
        options["env"] = {**(options.get("env") or os.environ), "PROFTRACE_TEST_SWITCHES": ",".join(words)}  # type: ignore[dict-item]
    return tuple(word for word in arguments if not isinstance(word, Switch))


class Tracer:
    """A `proftrace` process. Leaving the context kills it if it still runs."""

    def __init__(self, *arguments: object, prefix: tuple[str, ...] = (), **options: object) -> None:
        command = [*prefix, str(BINARY), *with_tier(without_switches(arguments, options))]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, **options)  # type: ignore[call-overload]
        self.lines = LineReader(self.process.stderr)

    def __enter__(self) -> "Tracer":
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.lines.close()

    def wait_until_recording(self) -> "Tracer":
        self.lines.wait(r"^proftrace: recording ", READY_S)
        return self

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(STOP_S)

    def text(self) -> str:
        self.lines.tail()
        return "\n".join(self.lines.seen)

    def kernel_ids(self) -> tuple[set[int], set[int]]:
        """The BPF programs and links that it holds, by their numbers in the kernel."""
        programs, links = set(), set()
        for path in Path(f"/proc/{self.process.pid}/fdinfo").iterdir():
            with contextlib.suppress(OSError):
                text = path.read_text()
                links |= {int(number) for number in re.findall(r"^link_id:\s+(\d+)", text, re.MULTILINE)}
                if "link_id" not in text:
                    programs |= {int(number) for number in re.findall(r"^prog_id:\s+(\d+)", text, re.MULTILINE)}
        return programs, links

    def probe_links(self) -> set[int]:
        """Its links to functions of programs, by their numbers in the kernel."""
        links = set()
        for path in Path(f"/proc/{self.process.pid}/fdinfo").iterdir():
            with contextlib.suppress(OSError):
                found = re.search(r"^link_type:\s+uprobe_multi\nlink_id:\s+(\d+)", path.read_text(), re.MULTILINE)
                links |= {int(found[1])} if found else set()
        return links


_libc = ctypes.CDLL(None, use_errno=True)
_SYS_BPF = 321
_BPF_PROG_GET_FD_BY_ID, _BPF_LINK_GET_FD_BY_ID = 13, 30


def in_kernel(ids: tuple[set[int], set[int]]) -> list[str]:
    """Those of the BPF programs and links that still exist."""
    found = []
    for what, command, numbers in (("program", _BPF_PROG_GET_FD_BY_ID, ids[0]), ("link", _BPF_LINK_GET_FD_BY_ID, ids[1])):
        for number in numbers:
            attributes = ctypes.create_string_buffer(struct.pack("=III", number, 0, 0), 12)
            fd = _libc.syscall(_SYS_BPF, command, attributes, 12)
            if fd >= 0:
                os.close(fd)
                found.append(f"{what} {number}")
            elif ctypes.get_errno() != errno.ENOENT:
                raise OSError(ctypes.get_errno(), "bpf")
    return found


def patches(pid: int) -> list[str]:
    """The rings of --tier patch that a process has mapped."""
    return [line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "proftrace_patch" in line]


def changed_text_bytes(pid: int) -> int:
    """In how many bytes the code of torch and libstdc++ in the process differs from the files: probes are such bytes."""
    changed = 0
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) < 6 or "x" not in fields[1] or not re.search(r"libtorch|libc10|libstdc\+\+", fields[5]):
                continue
            begin, end = (int(number, 16) for number in fields[0].split("-"))
            with open(f"/proc/{pid}/map_files/{begin:x}-{end:x}", "rb", buffering=0) as file:
                for offset in range(0, end - begin, 1 << 20):
                    size = min(1 << 20, end - begin - offset)
                    memory.seek(begin + offset)
                    file.seek(int(fields[2], 16) + offset)
                    there, here = memory.read(size), file.read(size)
                    if there[: len(here)] != here:
                        differing = [i for i, (a, b) in enumerate(zip(there, here)) if a != b]
                        changed += len(differing)
                        if len(differing) < MOST_BYTES_TOLD:  # few: rather left than there on purpose
                            for i in differing:
                                print(f"PID {pid}: {fields[5]}+{int(fields[2], 16) + offset + i:#x}: {here[i]:02x} is {there[i]:02x}", file=sys.stderr)
    return changed


class Result:
    """A result directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        self.ledger = self.summary["ledger"]

    def events(self) -> Iterator[dict[str, str]]:
        with (self.path / "events.csv").open(newline="", encoding="utf-8") as stream:
            rows = csv.reader(stream)  # in half of DictReader's time
            header = next(rows)
            start_at, last_ns = header.index("start_ns"), 0
            for number, row in enumerate(rows):
                start_ns = int(row[start_at])
                assert int(row[0]) == number and start_ns >= last_ns, f"row {number} is not in the order of starts: {row}"
                last_ns = start_ns
                yield dict(zip(header, row))

    @functools.cached_property
    def names(self) -> dict[int, collections.Counter[str]]:
        """How many rows of each name each process has."""
        names: dict[int, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for row in self.events():
            names[int(row["pid"])][row["name"]] += 1
        return names


class RecordsLost(AssertionError):
    """Records found no room in a ring: the tracer got no processor in time."""


def twice_where_records_are_lost(test: Callable[[], None]) -> "Callable[[LiveTest], None]":
    @functools.wraps(test)
    def run(case: LiveTest) -> None:
        try:
            test()
        except RecordsLost as lost:
            print(f"{lost}; once more ... ", end="", file=sys.stderr, flush=True)
            case.tearDown()
            case.doCleanups()
            case.setUp()
            test()
    return run


class LiveTest(unittest.TestCase):
    """A directory for each test, and the checks that many of them need.

    A test in which records were lost is done once more: a machine with other work may have kept the tracer waiting. Whatever else fails has failed.
    """

    python = "/usr/bin/python3"

    def __init__(self, methodName: str = "runTest") -> None:  # noqa: N803 (unittest's name)
        super().__init__(methodName)
        test = getattr(self, methodName, None)
        if test is not None:
            setattr(self, methodName, types.MethodType(twice_where_records_are_lost(test), self))

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="proftrace-live-"))
        self.directory.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    @property
    def out(self) -> Path:
        return self.directory / "result"

    def run_proftrace(self, *arguments: object, prefix: tuple[str, ...] = (), **options: object
                      ) -> "subprocess.CompletedProcess[str]":
        arguments = without_switches(arguments, options)
        return subprocess.run([*prefix, str(BINARY), *with_tier(arguments)], capture_output=True, text=True,
                              timeout=WORK_S, cwd=self.directory, **options)  # type: ignore[call-overload]

    def record_by(self, tracer: Tracer, job: Job, *lines: str, but: tuple[str, ...] = ()) -> tuple[Result, list[dict[str, str]]]:
        """Lets the job do `lines` while it records; the result, and the job's answers. `but`: losses that there may be."""
        with tracer:
            tracer.wait_until_recording()
            answers = [job.do(line) for line in lines]
            self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.out)
        self.assert_lossless(result, but)
        return result, answers

    def assert_one_sentence(self, stderr: str, *words: str) -> None:
        """One line on stderr that begins with the program's name and says `words`."""
        self.assertRegex(stderr, r"\Aproftrace: [^\n]+\n\Z")
        for word in words:
            self.assertRegex(stderr, word)

    def assert_fails(self, code: int, arguments: tuple[object, ...], *words: str, **options: object) -> None:
        """Exit code and sentence; nothing on stdout, and nothing is left in the working directory."""
        before = sorted(os.listdir(self.directory))
        done = self.run_proftrace(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assert_one_sentence(done.stderr, *words)
        self.assertEqual(sorted(os.listdir(self.directory)), before)

    def assert_identities(self, ledger: dict[str, int]) -> None:
        self.assertEqual(ledger["records"], sum(ledger[name] for name in ("decoded", "unknown", "malformed")))
        self.assertEqual(ledger["begins"],
                         sum(ledger[name] for name in ("closed", "end_by_exception", "end_lost", "truncated")))

    def assert_lossless(self, result: Result, but: tuple[str, ...] = ()) -> None:
        self.assert_identities(result.ledger)
        if result.ledger["ring_lost"] != 0:
            raise RecordsLost(f"ring_lost: {result.ledger['ring_lost']}")
        for name in ("malformed", "end_lost", "late", "unnamed", "read_failed", "follow_failed"):
            if name not in but:
                self.assertEqual(result.ledger[name], 0, name)
        self.assertGreater(result.ledger["begins"], 0)

    def assert_same_results(self, answer: dict[str, str]) -> None:
        """The job's results are those of its steps before anything was attached."""
        self.assertEqual(answer["distinct"], "1", answer)

    def assert_gone(self, ids: tuple[set[int], set[int]], timeout_s: float = 1.0) -> None:
        self.assertTrue(ids[0], "no BPF program of the tracer was seen")
        wait_until(lambda: not in_kernel(ids), timeout_s, "all BPF programs and links gone")


def run(module: str = "__main__", own_host: bool = False) -> None:
    """Runs the tests of a file, or says why it cannot (exit code 77). `own_host`: in a PID namespace of their own, where -a finds no
    other test's processes."""
    if own_host and os.geteuid() == 0 and os.getpid() != 1:
        os.execvp(CONTAINER[0], [*CONTAINER, sys.executable, *sys.argv])
    python = find_python()
    reason = None
    if os.geteuid() != 0:
        reason = "needs root: uprobes and BPF"
    elif not BINARY.is_file():
        reason = f"no proftrace at {BINARY}"
    elif python is None:
        reason = "no Python that has torch (PROFTRACE_ORACLE_PYTHON, PROFTRACE_PYTHON, /usr/bin/python3)"
    if reason is not None:
        print(f"SKIPPED: {reason}")
        sys.exit(SKIP)
    LiveTest.python = str(python)
    with tempfile.TemporaryDirectory(prefix="proftrace-plans-") as plans:
        os.environ["PROFTRACE_CACHE_DIR"] = os.environ.get("PROFTRACE_LIVE_PLANS", plans)
        unittest.main(module=module, verbosity=2)
