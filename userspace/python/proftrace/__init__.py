"""proftrace from Python: records the own process or another one, and reads results as DataFrames.

    import proftrace

    with proftrace.record(with_stack=True) as recording:
        train_step()
    print(recording.result.why())
    recording.result.key_averages().sort_values("self_cpu_time_total_us")

    result = proftrace.attach(4711, duration=10, activities="cpu,sched,syscalls")
    result = proftrace.open("result")

    with proftrace.profile(record_shapes=True) as profiler:      # torch.profiler's own words
        train_step()
    print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))

This package drives the program `proftrace` and decides nothing itself: options are the program's own (with_stack=True is
--with-stack, sample="99Hz" is --sample 99Hz), and so are its errors. It needs nothing but Python; where pyarrow and pandas are
there, tables are DataFrames that never were text. `%load_ext proftrace` brings `%%proftrace` to notebooks."""

from __future__ import annotations

TYPE_CHECKING = False  # typing's, which takes longer to import than all of this package
if TYPE_CHECKING:
    from proftrace._errors import ProftraceError
    from proftrace._notebook import load_ipython_extension
    from proftrace._profile import ProfilerActivity, profile, supported_activities, tensorboard_trace_handler
    from proftrace._program import find_program
    from proftrace._recording import Recording, attach, record
    from proftrace._result import Result, open
    from proftrace._schedule import ProfilerAction, schedule

# The part of the package that has each name. A part is imported where one of its names is first used: a job that only might be
# recorded pays nothing for it.
_PARTS = {
    "_errors": ("ProftraceError",),
    "_notebook": ("load_ipython_extension",),
    "_profile": ("ProfilerActivity", "profile", "supported_activities", "tensorboard_trace_handler"),
    "_program": ("find_program",),
    "_recording": ("Recording", "attach", "record"),
    "_result": ("Result", "open"),
    "_schedule": ("ProfilerAction", "schedule"),
}

__all__ = ["ProfilerAction", "ProfilerActivity", "ProftraceError", "Recording", "Result", "attach", "find_program", "load_ipython_extension", "open",
           "profile", "record", "schedule", "supported_activities", "tensorboard_trace_handler"]


def __getattr__(name: str) -> object:
    """record_function is torch's own, and is looked for where it is asked for: this package is there without torch."""
    if name == "record_function":
        from torch.autograd.profiler import record_function

        return record_function
    for part, names in _PARTS.items():
        if name in names:
            import importlib

            value = getattr(importlib.import_module(f"proftrace.{part}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'proftrace' has no attribute {name!r}")


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__, "record_function"})
