"""A told_cost_job.py that runs: what its own clock says that a step takes."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

JOB = Path(__file__).resolve().parent / "told_cost_job.py"


class CostJob:
    """Steps for ever, until the context is left."""

    def __init__(self, python: str, kind: str, folder: Path) -> None:
        self.log = folder / f"{kind}.log"
        with self.log.open("w") as out:
            self.process = subprocess.Popen([python, str(JOB), kind], stdout=out)
        self.pid = self.process.pid

    def __enter__(self) -> "CostJob":
        while len(self.rows()) < 20:
            if self.process.poll() is not None:
                raise RuntimeError(f"the job ended with {self.process.returncode}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def rows(self) -> list[tuple[float, float, int]]:
        """Time, CPU time used, steps."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [(float(row[0]), float(row[1]), int(row[2])) for row in lines if len(row) == 3]

    def cpu_us_a_step(self, begin: float, end: float) -> tuple[float, int]:
        """Between two moments; and how many steps these were."""
        rows = [row for row in self.rows() if begin <= row[0] <= end]
        steps = rows[-1][2] - rows[0][2]
        return 1e6 * (rows[-1][1] - rows[0][1]) / steps, steps

    def quiet(self, seconds: float, settle_s: float = 0.3) -> float:
        """The CPU time of a step while nobody records, in us."""
        time.sleep(settle_s)
        begin = time.time()
        time.sleep(seconds)
        return self.cpu_us_a_step(begin, time.time())[0]
