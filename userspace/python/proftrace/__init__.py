"""proftrace from Python: records the own process or another one, and reads results as DataFrames.

    import proftrace

    with proftrace.record(with_stack=True) as recording:
        train_step()
    print(recording.result.why())
    recording.result.key_averages().sort_values("self_cpu_time_total_us")

    result = proftrace.attach(4711, duration=10, activities="cpu,sched,syscalls")
    result = proftrace.open("result")

This package drives the program `proftrace` and decides nothing itself: options are the program's own (with_stack=True is
--with-stack, sample="99Hz" is --sample 99Hz), and so are its errors. It needs nothing but Python; where pyarrow and pandas are
there, tables are DataFrames that never were text. `%load_ext proftrace` brings `%%proftrace` to notebooks."""

from __future__ import annotations

from proftrace._errors import ProftraceError
from proftrace._notebook import load_ipython_extension
from proftrace._program import find_program
from proftrace._recording import Recording, attach, record
from proftrace._result import Result, open

__all__ = ["ProftraceError", "Recording", "Result", "attach", "find_program", "load_ipython_extension", "open", "record"]
