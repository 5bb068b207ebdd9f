#!/usr/bin/env python3
"""The Python package: a process records itself, others, and reads results."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
import unittest

import live
from live import HERE, Job, LiveTest

PACKAGE = HERE.parents[1] / "userspace" / "python"
# What every program begins with: one step has one row of each name.
BEGIN = """
import json, os, sys, torch
import proftrace
torch.set_num_threads(1)
model, values = torch.nn.Linear(8, 8), torch.ones(4, 8)
def steps(count):
    for _ in range(count):
        model(values).sum().backward()
def counts(result):
    names = [row["name"] for row in (result.events() if isinstance(result.events(), list) else result.events().to_dict("records"))]
    return {name: names.count(name) for name in ("aten::addmm", "SumBackward0")}
"""


class PythonApiTest(LiveTest):
    def run_python(self, program: str, *, python: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PROFTRACE_PROGRAM": str(live.BINARY), "PYTHONDONTWRITEBYTECODE": "1", **variables}
        return subprocess.run([python or str(self.python), "-c", BEGIN + textwrap.dedent(program)], capture_output=True, text=True,
                              timeout=live.WORK_S, cwd=self.directory, env=environment)

    def says(self, program: str, **variables: str) -> dict:  # type: ignore[type-arg]
        """What the program prints: a JSON document."""
        done = self.run_python(program, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_a_process_records_itself(self) -> None:
        said = self.says("""
            steps(3)
            with proftrace.record(record_shapes=True, with_stack=True) as recording:
                steps(20)
            steps(3)
            result = recording.result
            averages = [row for row in result.key_averages() if row["name"] == "aten::addmm"] if isinstance(result.key_averages(), list) else \\
                result.key_averages().query("name == 'aten::addmm'").to_dict("records")
            print(json.dumps({"counts": counts(result), "average": int(averages[0]["count"]), "lost": result.summary()["ledger"]["ring_lost"],
                              "why": str(result.why()), "steps": result.why().steps, "html": result._repr_html_()}))
            """)
        self.assertEqual((said["counts"], said["average"], said["lost"]), ({"aten::addmm": 20, "SumBackward0": 20}, 20, 0))
        self.assertIn("1. ", said["why"])
        self.assertTrue(said["html"].startswith("<pre>"))

    def test_again_and_from_another_thread(self) -> None:
        said = self.says("""
            import threading
            found = []
            def work():
                with proftrace.record() as recording:
                    steps(5)
                found.append(counts(recording.result))
            for _ in range(2):
                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
            print(json.dumps(found))
            """)
        self.assertEqual(said, [{"aten::addmm": 5, "SumBackward0": 5}] * 2)

    def test_a_forked_child_records_itself(self) -> None:
        said = self.says("""
            import multiprocessing
            def work(pipe):
                with proftrace.record() as recording:
                    steps(4)
                pipe.send(counts(recording.result))
            here, there = multiprocessing.get_context("fork").Pipe()
            child = multiprocessing.get_context("fork").Process(target=work, args=(there,))
            child.start()
            print(json.dumps(here.recv()))
            child.join()
            """)
        self.assertEqual(said, {"aten::addmm": 4, "SumBackward0": 4})

    def test_nothing_is_left_of_temporary_results(self) -> None:
        said = self.says("""
            with proftrace.record() as recording:
                steps(2)
            recording.result.events()
            path = recording.result.path
            was_there = os.path.exists(path)
            del recording
            print(json.dumps([was_there, os.path.exists(os.path.dirname(path)), os.listdir(os.environ["TMPDIR"])]))
            """, TMPDIR=str(self.directory))
        self.assertEqual(said, [True, False, []])

    def test_errors_are_the_programs_own(self) -> None:
        said = self.says("""
            errors = []
            def fail(action):
                try:
                    action()
                except proftrace.ProftraceError as error:
                    errors.append([error.exit_code, str(error)])
            def enter(**options):
                with proftrace.record(**options):
                    errors.append("entered")
            fail(lambda: enter(no_such=3))
            fail(lambda: proftrace.attach(4194000, duration=1))
            fail(lambda: proftrace.open("nothing"))
            fail(lambda: proftrace.record("x").result)
            os.environ["PROFTRACE_PROGRAM"] = sys.executable
            os.makedirs("kept")
            try:
                with proftrace.record("kept/result"):
                    pass
            except proftrace.ProftraceError as error:
                errors.append([error.exit_code != 0, ""])
            print(json.dumps(errors))
            """)
        self.assertEqual([code for code, _ in said], [2, 3, None, None, True])
        self.assertIn("--no-such", said[0][1])

    def test_an_error_of_what_is_recorded_is_kept(self) -> None:
        said = self.says("""
            try:
                with proftrace.record("result") as recording:
                    steps(3)
                    raise KeyError("mine")
            except KeyError as error:
                print(json.dumps([str(error), counts(proftrace.open("result"))]))
            """)
        self.assertEqual(said, ["'mine'", {"aten::addmm": 3, "SumBackward0": 3}])

    def test_another_process(self) -> None:
        with Job() as job:
            job.tell("loop")
            said = self.says(f"""
                result = proftrace.attach({job.pid}, duration=0.5, tier="patch")
                print(json.dumps(len(result.events())))
                """)
            job.finish_loop()
        self.assertGreater(said, 100)

    def test_cells_of_notebooks(self) -> None:
        """With a shell of our own: IPython is not installed everywhere."""
        said = self.says("""
            import types
            shown, pushed = [], {}
            sys.modules["IPython"] = types.ModuleType("IPython")
            sys.modules["IPython.display"] = types.SimpleNamespace(display=shown.append)
            class Shell:
                def register_magic_function(self, function, kind, name):
                    self.magic = function
                    self.named = (kind, name)
                def run_cell(self, cell):
                    exec(cell, globals())
                    return types.SimpleNamespace(raise_error=lambda: None)
                def push(self, names):
                    pushed.update(names)
            shell = Shell()
            proftrace.load_ipython_extension(shell)
            shell.magic("--record-shapes --sample 99Hz", "steps(6)")
            try:
                shell.magic("result", "")
            except ValueError as error:
                refused = str(error)
            print(json.dumps([shell.named, counts(pushed["proftrace_result"]), shown[0]._repr_html_()[:5], refused]))
            """)
        self.assertEqual(said[:3], [["cell", "proftrace"], {"aten::addmm": 6, "SumBackward0": 6}, "<pre>"])
        self.assertIn("'result' is none", said[3])

    def test_python_dash_m_is_the_program(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PROFTRACE_PROGRAM": str(live.BINARY)}
        done = subprocess.run([str(self.python), "-m", "proftrace", "--version"], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\Aproftrace \d")

    def test_a_package_without_its_program(self) -> None:
        done = self.run_python("""
            proftrace.open(".").why()
            """, PATH="/nowhere", PROFTRACE_PROGRAM="")
        self.assertEqual(done.returncode, 1)
        self.assertIn("proftrace is not installed", done.stderr)


if __name__ == "__main__":
    live.run()
