"""Records the own process, or another one."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import warnings
import weakref
from types import TracebackType

from proftrace._errors import ProftraceError
from proftrace._program import Option, find_program, run, sentence_of, words_of
from proftrace._result import Result

_PR_SET_PTRACER = 0x59616D61
_READY = "proftrace: recording "
# How summary.json names them where a process has none.
_JUMPS = "jumps in the job's code"


class Recording:
    """A `proftrace` that records this process, from entering the context to leaving it. All of the process is recorded, also other
    threads; what runs between the two calls of one thread is in it whole."""

    def __init__(self, path: str | os.PathLike[str] | None, options: dict[str, Option]) -> None:
        self._keeps = path is not None
        self.path = os.fspath(path) if path is not None else os.path.join(tempfile.mkdtemp(prefix="proftrace-"), "result")
        # The process that records itself. A forked child has a copy of this object, and no recorder.
        self._pid = os.getpid()
        self._options = {"tier": "patch", "format": "none", **options}
        self._process: subprocess.Popen[str] | None = None
        self._said: list[str] = []
        self._is_ready = threading.Event()
        self._reader: threading.Thread | None = None
        self._result: Result | None = None
        self._ending: weakref.finalize[..., Recording] | None = None

    @property
    def result(self) -> Result:
        """What was recorded, once the context was left."""
        if self._result is None:
            raise ProftraceError("the recording is not over: its result is there when the context was left")
        return self._result

    def __enter__(self) -> Recording:
        arguments = ["record", "-p", str(os.getpid()), "-o", self.path, *words_of(self._options)]
        # It has a session of its own: a ^C for this process is not for the recorder, which has to end properly.
        try:
            self._process = subprocess.Popen([find_program(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                             text=True, errors="replace", start_new_session=True)
        except (ProftraceError, OSError) as error:
            self._clean()
            raise ProftraceError(str(error)) from error
        # A recording that nobody ended leaves nothing behind when this process ends.
        self._ending = weakref.finalize(self, _end_with_process, self._process, self._pid, None if self._keeps else os.path.dirname(self.path))
        # Where Yama lets parents alone look at their children, the child has to be let in.
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(self._process.pid), 0, 0, 0)
        self._reader = threading.Thread(target=self._read, name="proftrace", daemon=True)
        self._reader.start()
        self._is_ready.wait()
        if self._process.poll() is not None:
            self._finish()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if os.getpid() != self._pid:
            return
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._finish()
        except ProftraceError:
            # The program's own failure does not hide that of what was recorded.
            if error is None:
                raise

    def _read(self) -> None:
        """Takes what it says until it ends; ready, or over, it lets __enter__ go on."""
        assert self._process is not None and self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            if line.startswith(_READY):
                self._is_ready.set()
        self._process.wait()
        self._is_ready.set()

    def _finish(self) -> None:
        assert self._process is not None and self._reader is not None
        code = self._process.wait()
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()
        if self._ending is not None:
            self._ending.detach()
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, 0, 0, 0, 0)
        if code != 0:
            self._clean()
            raise ProftraceError(sentence_of("".join(self._said)), code)
        self._result = Result(self.path, is_temporary=not self._keeps)
        self._tell_of_missing_jumps()

    def _tell_of_missing_jumps(self) -> None:
        """Warns where jumps were asked for and could not be had: probes see nothing where another recorder has its jumps."""
        summary = os.path.join(self.path, "summary.json")
        if self._options["tier"] != "patch" or not os.path.exists(summary):
            return
        with open(summary, encoding="utf-8") as stream:
            for missing in json.load(stream)["unsupported"]:
                if missing["feature"] == _JUMPS:
                    warnings.warn(f"proftrace: {missing['feature']}: {missing['reason']}", RuntimeWarning, stacklevel=4)

    def _clean(self) -> None:
        if not self._keeps:
            shutil.rmtree(os.path.dirname(self.path), ignore_errors=True)


def _end_with_process(process: subprocess.Popen[str], pid: int, folder: str | None) -> None:
    """Ends a recorder at the end of the process `pid`, and removes its temporary folder."""
    if os.getpid() != pid:
        return
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def record(path: str | os.PathLike[str] | None = None, **options: Option) -> Recording:
    """A context manager that records this process. `path`: the result directory, which must not be there; None: a temporary one, which
    goes with the Result. `options`: those of `proftrace record`; tier is "patch" (by jumps, without root) unless it is given."""
    return Recording(path, options)


def attach(pid: int | list[int], path: str | os.PathLike[str] | None = None, *, duration: float | str | None = None, **options: Option) -> Result:
    """Records other processes and returns when that is over. `duration`: seconds, or text as "500ms"; without it, and without `steps`, the
    recording ends with the processes."""
    keeps = path is not None
    place = os.fspath(path) if path is not None else os.path.join(tempfile.mkdtemp(prefix="proftrace-"), "result")
    if isinstance(duration, (int, float)):
        duration = f"{duration}s"
    arguments = ["record", "-o", place, *words_of({"pid": pid, "duration": duration, "format": "none", **options})]
    try:
        run(arguments)
    except ProftraceError:
        if not keeps:
            shutil.rmtree(os.path.dirname(place), ignore_errors=True)
        raise
    return Result(place, is_temporary=not keeps)
