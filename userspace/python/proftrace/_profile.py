"""The profiler that people have, by another recorder: the signature and the attributes of torch.profiler.profile."""

from __future__ import annotations

import enum
import json
import os
import time
import warnings
from types import TracebackType
from typing import Any, Callable, Iterable

from proftrace._averages import EventList, KeyAverages, events_of
from proftrace._errors import ProftraceError
from proftrace._program import Option, find_program
from proftrace._recording import Recording
from proftrace._result import Result
from proftrace._schedule import ProfilerAction, action_named
from proftrace._trace import write_trace


class ProfilerActivity(enum.Enum):
    """What is recorded. torch's own enumeration is taken, too."""

    CPU = 0
    CUDA = 2


def supported_activities() -> set[ProfilerActivity]:
    return set(ProfilerActivity)


class profile:
    """torch.profiler.profile by `proftrace record`: each stretch of recorded steps is one recording of this process, by jumps.
    `result` is the last one, as a Result; docs/reference/python.md has what differs. A failure of the recorder at start() or stop() is
    a ProftraceError; in the middle of the job it is a warning, and what asks for the results of that cycle is told the reason."""

    def __init__(self, *, activities: Iterable[Any] | None = None, schedule: Callable[[int], Any] | None = None,
                 on_trace_ready: Callable[[profile], Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
                 with_stack: bool = False, with_flops: bool = False, with_modules: bool = False, experimental_config: Any = None,
                 execution_trace_observer: Any = None, acc_events: bool = False, use_cuda: bool | None = None,
                 custom_trace_id_callback: Any = None, post_processing_timeout_s: float | None = None) -> None:
        _refuse({"execution_trace_observer": execution_trace_observer, "custom_trace_id_callback": custom_trace_id_callback,
                 "post_processing_timeout_s": post_processing_timeout_s})
        _check_config(experimental_config)
        self.activities = _activities(activities, use_cuda)
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.experimental_config = experimental_config
        self.acc_events = acc_events
        self.on_trace_ready = on_trace_ready
        self.schedule: Callable[[int], Any] = schedule or (lambda step: ProfilerAction.RECORD)
        self.record_steps = schedule is not None
        self.step_num = 0
        self.current_action = action_named(self.schedule(0))
        self.preset_metadata: dict[str, str] = {}
        self._metadata: dict[str, str] = {}
        self._results: list[Result] = []
        self._failure: ProftraceError | None = None
        self._recording: Recording | None = None
        self._step_row: Any = None
        # The process that called start(). A forked child has a copy of this object, and no recording.
        self._pid: int | None = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.stop()
        except Exception as failure:
            # What goes wrong with the results does not hide what went wrong in the job.
            if error is None:
                raise
            warnings.warn(f"proftrace: {failure}", RuntimeWarning, stacklevel=2)

    def start(self) -> None:
        if self._pid == os.getpid():
            raise ProftraceError("this profiler runs already")
        find_program()
        if self.current_action.is_recording:
            self._begin()
        self._pid = os.getpid()
        self._open_step()

    def stop(self) -> None:
        if self._pid != os.getpid():
            return
        self._pid = None
        self._close_step()
        if self.current_action.is_recording:
            self._end()
            if self._failure is None:
                self._trace_ready()

    def step(self) -> None:
        """Says that the next step begins."""
        if self._pid != os.getpid():
            return
        self._close_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = after = action_named(self.schedule(self.step_num))
        is_saved = before is ProfilerAction.RECORD_AND_SAVE
        try:
            if before.is_recording and (is_saved or not after.is_recording):
                self._end()
            if before is ProfilerAction.RECORD and not after.is_recording:
                warnings.warn(f"the schedule goes from RECORD to {after.name}: on_trace_ready is called after RECORD_AND_SAVE alone", stacklevel=2)
        except ProftraceError as error:
            self._warn(error)
        if is_saved and self._failure is None:
            self._trace_ready()
        try:
            if after.is_recording and (is_saved or not before.is_recording):
                self._begin()
        except ProftraceError as error:
            self._warn(error)
        self._open_step()

    @property
    def result(self) -> Result:
        """What the last cycle recorded."""
        if self._recording is not None:
            raise ProftraceError("the recording is not over: its results are there in on_trace_ready, and after stop()")
        if self._failure is not None:
            raise self._failure
        if not self._results:
            raise ProftraceError("nothing was recorded: no step of the schedule was an active one, or start() was not called")
        return self._results[-1]

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False,
                     include_python_functions: bool = False) -> KeyAverages:
        """Rows by name, of the last cycle."""
        if include_python_functions:
            raise ProftraceError("the table has no rows of Python functions; the flame graph and export_stacks() have them")
        result = self.result
        if len(self._results) > 1:
            raise ProftraceError(f"acc_events=True has kept {len(self._results)} recordings, and a table is made of one: "
                                 "take key_averages() in on_trace_ready, or events(), which has the rows of all")
        return KeyAverages(result, {"group_by_input_shape": group_by_input_shape, "group_by_stack_n": group_by_stack_n or None,
                                    "group_by_overload_name": group_by_overload_name})

    def events(self) -> EventList:
        """Every row: of the last cycle, or with acc_events of all cycles."""
        last = self.result
        return EventList(last, [event for result in self._results for event in events_of(result)])

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the last cycle as a trace; a name that ends in .gz is compressed."""
        write_trace(self.result, os.fspath(path), {**self.preset_metadata, **self._metadata})

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Writes folded stacks, root first."""
        if not self.with_stack:
            raise ProftraceError("export_stacks() needs with_stack=True")
        self.result.export("folded", os.path.abspath(path), metric=metric)

    def export_memory_timeline(self, path: str | os.PathLike[str], device: str | None = None) -> None:
        if not self.profile_memory:
            raise ProftraceError("export_memory_timeline() needs profile_memory=True")
        self.result.export("memory-timeline", os.path.abspath(path), device=device)

    def add_metadata(self, key: str, value: str) -> None:
        """Puts a text into the trace file."""
        self._metadata[key] = json.dumps(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Puts a JSON value into the trace file."""
        self._metadata[key] = _checked_json(key, value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        self.preset_metadata[key] = _checked_json(key, value)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        raise ProftraceError("a recording's activities cannot be changed while it runs")

    def _options(self) -> dict[str, Option]:
        """Those of `proftrace record`. Children are left alone, as torch.profiler leaves them; and jumps record alone, for root too, so
        that a recorder that cannot have them says so: its probes would see nothing where another one has jumps."""
        options: dict[str, Option] = {"no_follow_children": True, "no_bpf": True}
        if self.activities == {ProfilerActivity.CPU}:
            options |= {"activities": "cpu", "gpu": "off"}
        elif self.activities == {ProfilerActivity.CUDA}:
            options |= {"activities": "cuda"}
        for name in ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules"):
            options[name] = bool(getattr(self, name))
        return options

    def _begin(self) -> None:
        if not self.acc_events:
            self._results = []
        self._failure = None
        recording = Recording(None, self._options())
        recording.__enter__()
        self._recording = recording

    def _end(self) -> None:
        recording, self._recording = self._recording, None
        if recording is None:
            return
        try:
            recording.__exit__(None, None, None)
        except ProftraceError as error:
            self._failure = error
            raise
        self._results.append(recording.result)

    def _warn(self, error: ProftraceError) -> None:
        self._failure = error
        warnings.warn(f"proftrace records nothing of this cycle: {error}", RuntimeWarning, stacklevel=3)

    def _trace_ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _open_step(self) -> None:
        if self.record_steps:
            from torch.autograd.profiler import record_function

            self._step_row = record_function(f"ProfilerStep#{self.step_num}")
            self._step_row.__enter__()

    def _close_step(self) -> None:
        row, self._step_row = self._step_row, None
        if row is not None:
            row.__exit__(None, None, None)


def tensorboard_trace_handler(dir_name: str | os.PathLike[str], worker_name: str | None = None,
                              use_gzip: bool = False) -> Callable[[profile], None]:
    """An on_trace_ready that writes a trace a cycle into a directory, as TensorBoard's plugin and HTA look for them. `worker_name`: of
    this process, HOST_PID without it."""

    def write(profiler: profile) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise ProftraceError(f"the directory {os.fspath(dir_name)} cannot be made: {error.strerror}") from error
        worker = worker_name or f"{os.uname().nodename}_{os.getpid()}"
        profiler.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"))

    return write


def _activities(asked: Iterable[Any] | None, use_cuda: bool | None) -> set[ProfilerActivity]:
    names = [activity.name for activity in asked] if asked is not None else []
    for name in names:
        if name not in ProfilerActivity.__members__:
            raise ProftraceError(f"ProfilerActivity.{name} is not recorded; CPU and CUDA are")
    activities = {ProfilerActivity[name] for name in names} or supported_activities()
    if use_cuda is not None:
        warnings.warn("use_cuda is old; say it by activities", FutureWarning, stacklevel=3)
        activities = activities | {ProfilerActivity.CUDA} if use_cuda else activities - {ProfilerActivity.CUDA}
    if not activities:
        raise ProftraceError("there is nothing to record: activities has CUDA alone, and use_cuda is False")
    return activities


def _refuse(arguments: dict[str, Any]) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise ProftraceError(f"{name} has no counterpart in proftrace; leave it out")


def _check_config(config: Any) -> None:
    """torch's _ExperimentalConfig begins with the names of CUPTI's metrics: these are not recorded, and all else changes no row."""
    state = config.__getstate__() if hasattr(config, "__getstate__") else None
    if isinstance(state, tuple) and state and state[0]:
        raise ProftraceError("experimental_config asks for CUPTI's metrics (profiler_metrics), which are not recorded")


def _checked_json(key: str, value: str) -> str:
    try:
        json.loads(value)
    except (TypeError, ValueError) as error:
        raise ProftraceError(f"the metadata {key!r} is no JSON value: {error}") from error
    return value
