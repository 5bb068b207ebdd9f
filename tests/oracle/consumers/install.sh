#!/usr/bin/env bash
# Makes the virtual environment of the consumers' tests, outside the repository: install.sh DIRECTORY
# HTA 0.5.0 does not run with pandas 3 or NumPy 2.
set -euo pipefail
directory=${1:?usage: install.sh DIRECTORY}
"${PROFTRACE_BASE_PYTHON:-/usr/bin/python3}" -m venv "$directory"
"$directory/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
  HolisticTraceAnalysis==0.5.0 pandas==2.2.3 numpy==1.26.4 viztracer==1.1.1 torch-tb-profiler==0.4.3
echo "PROFTRACE_CONSUMERS_PYTHON=$directory/bin/python"
