"""Asks the questions of a fleet of DuckDB's or Spark's Python package: driver.py REQUEST [ANSWER].

REQUEST is a JSON document: the engine, the statements and, for Spark, the tables. ANSWER, or the standard output, gets a JSON
document a line: {"proftrace_question": NAME}, a line a column with its name and type, {"proftrace_rows": NAME}, and a line a row.
The exit code is 0; 1 where the engine refused, which is said on the standard error output; 3 where the package is not there.
With "prompt" in the request it asks for statements at the terminal instead."""

import sys

sys.path[:] = [place for place in sys.path if place]  # nothing is imported from the folder that one happens to be in

import decimal  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402

NO_PACKAGE = 3
MOST_SHOWN = 200  # rows that the prompt shows


def cell(value):
    """A value as JSON has it: there is no number for infinity, and none for what is no number."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


class DuckDb:
    def __init__(self, request):
        import duckdb
        self.connection = duckdb.connect(":memory:")
        for statement in request["settings"]:
            self.connection.execute(statement)

    def table(self, statement):
        self.connection.execute(statement["sql"])

    write = table  # is written by its SQL

    def view(self, statement):
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {statement['name']} AS {statement['sql']}")

    def keep(self, statement):
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {statement['name']} AS {statement['sql']}")

    def ask(self, sql):
        found = self.connection.execute(sql)
        columns = [(column[0], str(column[1])) for column in found.description or ()]

        def rows():
            while part := found.fetchmany(10000):
                yield from part
        return columns, rows()


class Spark:
    def __init__(self, request):
        from pyspark.sql import SparkSession
        self.views = {}  # those that no question has named yet, by name
        builder = SparkSession.builder.appName("proftrace fleet").config("spark.sql.session.timeZone", "UTC")
        if request.get("master"):
            builder = builder.master(request["master"])
        if (request.get("master") or "").startswith("local"):  # 200 parts of a table are for a cluster
            builder = builder.config("spark.sql.shuffle.partitions", "4")
        for key, value in request["spark"].items():
            builder = builder.config(key, value)
        self.session = builder.getOrCreate()
        self.session.sparkContext.setLogLevel("ERROR")

    def table(self, statement):
        from pyspark.errors import AnalysisException
        from pyspark.sql import types
        names = {"BIGINT": types.LongType(), "DOUBLE": types.DoubleType(), "VARCHAR": types.StringType()}
        schema = types.StructType([types.StructField(name, names[kind]) for name, kind in statement["columns"]])
        frame = self.session.createDataFrame([], schema)
        try:
            reader = self.session.read.option("recursiveFileLookup", "true").option("mergeSchema", "true")
            frame = frame.unionByName(reader.option("pathGlobFilter", "*.parquet").parquet(statement["path"]), allowMissingColumns=True)
        except AnalysisException as error:
            # The table is empty where there are no files. Files that cannot be read are an error.
            if not any(word in str(error) for word in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")):
                raise
        frame.na.fill({"job": "", "attempt": 0}).createOrReplaceTempView(statement["name"])

    def view(self, statement):
        self.views[statement["name"]] = statement["sql"]

    def keep(self, statement):
        # A checkpoint ends the plan. Views that stand on each other, each named several times, make a plan that no heap holds.
        frame = self.session.sql(statement["sql"]).localCheckpoint()
        frame.createOrReplaceTempView(statement["name"])

    def ask(self, sql):
        needed, texts = set(), [sql]
        while texts:
            words = set(re.findall(r"\w+", texts.pop().lower()))
            for name in words & self.views.keys() - needed:
                needed.add(name)
                texts.append(self.views[name])
        for name in [name for name in self.views if name in needed]:  # each stands on those before it
            self.keep({"name": name, "sql": self.views.pop(name)})
        frame = self.session.sql(sql)
        return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields], iter(frame.collect())


def answer(engine, request, out):
    def line(document):
        out.write(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")

    for statement in request["statements"]:
        if statement["kind"] == "ask":
            line({"proftrace_question": statement["name"]})
            columns, rows = engine.ask(statement["sql"])
            for name, kind in columns:
                line({"column_name": name, "column_type": kind})
            line({"proftrace_rows": statement["name"]})
            names = [name for name, _ in columns]
            for row in rows:
                line(dict(zip(names, map(cell, row))))
        else:
            getattr(engine, statement["kind"])(statement)


def show(columns, rows):
    titles, lines, more = [name for name, _ in columns], [], False
    for row in rows:
        more = len(lines) == MOST_SHOWN
        if more:
            break
        lines.append(["NULL" if value is None else str(value).translate({n: "?" for n in (*range(32), 127)}) for value in row])
    widths = [max(len(line[i]) for line in [titles, *lines]) for i in range(len(titles))]
    for line in [titles, ["-" * width for width in widths], *lines]:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())
    print(f"({len(lines)} rows{' shown; there are more' if more else ''})")


def prompt(engine, request):
    """Asks at the terminal until the end of the input. A statement ends with a semicolon."""
    import readline  # noqa: F401  the input can be edited
    for statement in request["statements"]:
        getattr(engine, statement["kind"])(statement)
    text = ""
    while True:
        try:
            text += input("   ...> " if text else "fleet> ") + "\n"
        except EOFError:
            return
        except KeyboardInterrupt:
            text = ""
            print()
            continue
        if text.strip() in ("", ".quit", "exit", "quit"):
            if text.strip():
                return
            text = ""
        elif text.rstrip().endswith(";"):
            try:
                show(*engine.ask(text.rstrip().rstrip(";")))
            except Exception as error:  # the engine's, whichever they are: said, and the next one may be better
                print(str(error).strip())
            text = ""


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    try:
        engine = {"duckdb": DuckDb, "spark": Spark}[request["engine"]](request)
    except ImportError as error:
        print(error, file=sys.stderr)
        return NO_PACKAGE
    try:
        if request.get("prompt"):
            prompt(engine, request)
        elif len(sys.argv) > 2:
            with open(sys.argv[2], "w", encoding="utf-8") as out:
                answer(engine, request, out)
        else:
            sys.stdout.reconfigure(encoding="utf-8")
            answer(engine, request, sys.stdout)
            sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)
    except Exception as error:  # the engine's, whichever they are
        java = getattr(error, "java_exception", None)  # says what py4j's own message does not
        text = java.toString() if java is not None else f"{type(error).__name__}: {error}"
        print(text if request["engine"] == "spark" else error, file=sys.stderr)
        return 1
    return 0


sys.exit(main())
