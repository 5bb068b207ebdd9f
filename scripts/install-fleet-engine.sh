#!/usr/bin/env bash
# Makes a virtual environment outside the repository with DuckDB from PyPI, where `proftrace fleet` finds it, and prints the path of its
# interpreter: install-fleet-engine.sh [--tests|--spark]. Does nothing where it is there already.
#   --tests   also what the tests compare answers with: pandas and pyarrow
#   --spark   one with Spark instead, in a folder beside it (it needs a Java 17, and takes 0.5 GB)
set -euo pipefail
folder=${XDG_DATA_HOME:-$HOME/.local/share}/proftrace/duckdb
packages=(duckdb duckdb-cli)
modules="duckdb, duckdb_cli" program=duckdb
case "${1:-}" in
  --tests) packages+=(pandas pyarrow) modules+=", pandas, pyarrow" ;;
  --spark) folder=${folder%/*}/spark packages=(pyspark) modules=pyspark program=pyspark ;;
  "") ;;
  *) sed -n '2,6p' "$0" | sed 's/^# \{0,1\}//'; exit 2 ;;
esac
python=$folder/bin/python

if "$python" -c "import $modules" 2>/dev/null && [ -x "$folder/bin/$program" ]; then
  echo "$python"
  exit 0
fi
printf 'install-fleet-engine: making %s with %s from PyPI\n' "$folder" "${packages[*]}" >&2
mkdir -p "$(dirname "$folder")"
"${PROFTRACE_BASE_PYTHON:-/usr/bin/python3}" -m venv "$folder" >&2
"$python" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir "${packages[@]}" >&2
"$python" -c "import $modules" >&2
echo "$python"
