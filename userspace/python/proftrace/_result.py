"""Reads what was recorded."""

from __future__ import annotations

import csv
import functools
import html
import json
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from proftrace._errors import ProftraceError
from proftrace._program import Option, run, words_of


class Result:
    """A result directory, an archive (.tar) or a capture. Tables are pandas DataFrames where pandas and pyarrow are there, else lists of
    dictionaries; arrow() gives them as a pyarrow Table."""

    def __init__(self, path: str | os.PathLike[str], is_temporary: bool = False) -> None:
        self.path = os.fspath(path)
        if not os.path.exists(self.path):
            raise ProftraceError(f"there is no {self.path}")
        self._folder: str | None = None
        self._tables: dict[str, Any] = {}
        if is_temporary:
            remove_with(self, os.path.dirname(self.path))

    def events(self) -> Any:
        """Every row: operators, autograd, annotations, CUDA calls, kernels, system calls; docs/reference/columns.md."""
        return self.table("events")

    def key_averages(self) -> Any:
        return self.table("key_averages")

    def steps(self) -> Any:
        return self.table("steps")

    def table(self, name: str) -> Any:
        """A table of docs/reference/parquet.md, "waits" say."""
        if _has("pandas"):
            return self.arrow(name).to_pandas()
        return [dict(row) for row in self.arrow(name).to_pylist()] if _has("pyarrow") else self._rows(name)

    def arrow(self, name: str) -> Any:
        if not _has("pyarrow"):
            raise ProftraceError("pyarrow is not installed; pip install pyarrow, or take table()")
        if name not in self._tables:
            import pyarrow.parquet

            path = self._file("parquet-events" if name == "events" else "parquet", Path("parquet") / f"{name}.parquet")
            self._tables[name] = pyarrow.parquet.read_table(path)
        return self._tables[name]

    def summary(self) -> dict[str, Any]:
        """What summary.json has."""
        return json.loads(self._file("summary", Path("summary.json")).read_text(encoding="utf-8"))

    def why(self) -> "Verdict":
        """The largest causes of the steps' time; docs/reference/why.md."""
        return Verdict(self, json.loads(run(["report", self.path, "--why", "--json"])))

    def export(self, format: str, path: str | os.PathLike[str], **options: Option) -> None:
        """Writes a format of `proftrace export` ("chrome", "perfetto", "flamegraph") to a file or folder."""
        run(["export", self.path, "--format", format, "-o", os.fspath(path), *words_of(options)])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self.why()))}</pre>"

    def __repr__(self) -> str:
        return f"proftrace.open({self.path!r})"

    def _file(self, format: str, name: Path) -> Path:
        """A file that `export` makes of the result, once."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="proftrace-")
            remove_with(self, self._folder)
        folder = Path(self._folder) / format
        if not folder.exists():
            run(["export", self.path, "--format", format, "-o", str(folder)])
        return folder if folder.is_file() else folder / name if (folder / name).exists() else folder / name.name

    def _rows(self, name: str) -> list[dict[str, Any]]:
        """The same without pyarrow, from the CSV file that has the table."""
        formats = {"events": "events-csv", "key_averages": "csv", "modules": "modules-csv", "samples": "samples-csv"}
        if name not in formats:
            raise ProftraceError(f"the table {name} is read by pyarrow; pip install pyarrow")
        with self._file(formats[name], Path(f"{name}.csv")).open(newline="", encoding="utf-8") as stream:
            return [{column: _value(cell) for column, cell in row.items()} for row in csv.DictReader(stream)]


class Verdict:
    """`about`, `steps`, `median_step_us`, `findings` and `remarks`, as `report --why --json` has them; str() is its text."""

    def __init__(self, result: Result, document: dict[str, Any]) -> None:
        self._result = result
        self.about: str = document["about"]
        self.steps: int = document["steps"]
        self.median_step_us: float = document["median_step_us"]
        self.findings: list[dict[str, Any]] = document["findings"]
        self.remarks: list[str] = document["remarks"]

    @functools.cached_property
    def _text(self) -> str:
        return run(["report", self._result.path, "--why"])

    def __repr__(self) -> str:
        return self._text


def open(path: str | os.PathLike[str]) -> Result:
    """A recording that is there already."""
    return Result(path)


def remove_with(owner: object, folder: str) -> None:
    """Removes a temporary folder when `owner` goes, or this process ends. A forked child has a copy of the owner, and not the folder."""
    pid = os.getpid()

    def remove() -> None:
        if os.getpid() == pid:
            shutil.rmtree(folder, ignore_errors=True)

    weakref.finalize(owner, remove)


def _has(module: str) -> bool:
    try:
        __import__(module)
        if module == "pandas":
            import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def _value(cell: str) -> int | float | str | None:
    if cell == "":
        return None
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell
