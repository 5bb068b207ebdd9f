#!/usr/bin/env python3
"""Runs a test of this directory by an interpreter that has what it needs, and says so where there is none:
run_fleet_test.py PYTHON PROFTRACE TEST."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SKIPPED = 77  # PROFTRACE_SKIP_CODE

python, program, test = sys.argv[1:]
if not python or subprocess.run([python, "-c", "import duckdb, duckdb_cli, pandas, pyarrow"], capture_output=True, check=False).returncode != 0:
    print("no Python with DuckDB, pandas and pyarrow: scripts/install-fleet-engine.sh --tests, then -DPROFTRACE_FLEET_PYTHON")
    sys.exit(SKIPPED)
os.execv(python, [python, str(Path(__file__).parent / test), program])
