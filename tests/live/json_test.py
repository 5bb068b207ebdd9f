#!/usr/bin/env python3
"""What --json prints, by the commands' own schemas (--json-schema), and by the order of what happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import unittest
from pathlib import Path
from typing import Any

import live
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from live import BINARY, Job, LiveTest

COMMANDS = ("record", "export", "clean", "list", "doctor", "dump", "report", "top")
PROGRAM = "import torch\nfor _ in range(50): torch.mm(torch.ones(4, 4), torch.ones(4, 4))\nprint('from the job')\n"


class JsonTest(LiveTest):
    def schema(self, command: str) -> Any:
        done = subprocess.run([BINARY, command, "--json-schema"], capture_output=True, text=True, timeout=live.WORK_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def check(self, command: str, document: Any) -> None:
        wrong = best_match(Draft202012Validator(self.schema(command)).iter_errors(document))
        if wrong is not None:
            self.fail(f"{list(wrong.absolute_path)}: {wrong.message[-300:]}")

    def ask(self, *arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=live.WORK_S)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def lines(self, *arguments: str, code: int = 0) -> list[Any]:
        lines = [json.loads(line) for line in self.ask(*arguments, code=code).stdout.splitlines()]
        for line in lines:
            self.check(arguments[0], line)
        return lines

    def test_schemas_refuse_what_they_do_not_describe(self) -> None:
        for command in COMMANDS:
            schema = self.schema(command)
            Draft202012Validator.check_schema(schema)
            for wrong in ({}, {"event": "no such"}, 7, [{}]):
                self.assertFalse(Draft202012Validator(schema).is_valid(wrong), (command, wrong))

    def test_a_recording_and_what_is_made_of_it(self) -> None:
        with Job() as job:
            job.tell("loop")
            result = f"{self.directory}/result"
            lines = self.lines("record", "-p", str(job.pid), "-d", "1.2s", "-o", result, "--json", "--tier", "bpf")
            events = [line["event"] for line in lines]
            self.assertEqual((events[0], events[-1]), ("ready", "finished"))
            self.assertIn("progress", events)
            self.assertEqual(lines[0]["pids"], [job.pid])
            last = lines[-1]
            self.assertEqual(sorted(last["files"]), sorted(os.listdir(result)))
            self.assertEqual(last["summary"], json.loads(Path(f"{result}/summary.json").read_text()))
            self.check("list", json.loads(self.ask("list", "--json").stdout))
            dumped = json.loads(self.ask("dump", "-p", str(job.pid), "--json").stdout)
            self.check("dump", dumped)
            frames = [frame for process in dumped["processes"] for thread in process["threads"] for stack in thread["stacks"] for frame in stack["frames"]]
            frames[0]["line"] = None  # a frame that has only begun has no line
            self.check("dump", dumped)
            self.check("dump", json.loads(self.ask("dump", "-a", "--json").stdout))
            self.assertEqual([line["event"] for line in self.lines("clean", "-p", str(job.pid), "--json")], ["nothing_left"])
            for line in self.lines("top", "-p", str(job.pid), "--once", "--json", "--window", "1s"):
                self.assertEqual(line["tables"]["operators"]["missing"], None)
            job.finish_loop()
        self.check("doctor", json.loads(self.ask("doctor", "--json").stdout))
        for options in ((), ("--why",), ("--compare", result), ("--row-limit", "2")):
            done = subprocess.run([BINARY, "report", result, "--json", *options], capture_output=True, text=True, timeout=live.WORK_S)
            self.check("report", json.loads(done.stdout))
        os.mkdir(f"{self.directory}/out")
        lines = self.lines("export", result, "--format", "csv,folded", "-o", f"{self.directory}/out", "--json")
        self.assertEqual([line["format"] for line in lines], ["csv", "folded"])
        for line in lines:
            self.assertGreater(os.path.getsize(line["file"]), 0)

    def test_a_commands_own_output_is_not_among_the_lines(self) -> None:
        done = self.ask("record", "-o", f"{self.directory}/result", "--json", "--tier", "bpf", "--format", "csv", "--", LiveTest.python, "-c", PROGRAM)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for line in lines:
            self.check("record", line)
        self.assertEqual([line["event"] for line in lines if line["event"] in ("ready", "process", "finished")], ["ready", "process", "finished"])
        self.assertIn("from the job", done.stderr)

    def test_dumps_of_a_flight_recorder(self) -> None:
        with Job() as job:
            job.tell("loop")
            with subprocess.Popen([BINARY, "record", "-p", str(job.pid), "-o", f"{self.directory}/flight", "--flight-recorder", "2s", "--json",
                                    "--tier", "bpf", "--format", "csv"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tracer:
                assert tracer.stdout is not None
                events = []
                for line in tracer.stdout:
                    event = json.loads(line)
                    self.check("record", event)
                    events.append(event["event"])
                    if events.count("progress") == 3 and "dump" not in events and events[-1] == "progress":
                        tracer.send_signal(signal.SIGUSR1)
                    if events[-1] == "dump":
                        tracer.send_signal(signal.SIGINT)
                self.assertEqual(tracer.wait(live.STOP_S), 0)
            self.assertEqual((events.count("dump"), events[-1]), (1, "finished"))
            job.finish_loop()

    def test_errors_are_lines_too(self) -> None:
        for arguments, code in ((("record", "-p", "4194303", "--json"), 3), (("export", "/no/such", "--format", "csv", "--json"), 8),
                                (("record", "-p", "1", "-o", "-", "--json"), 2), (("export", "/no/such", "--format", "csv", "-o", "-", "--json"), 2),
                                (("clean", "-p", "4194303", "--json"), 3)):
            lines = self.lines(*arguments, code=code)
            self.assertEqual([line["error"]["exit_code"] for line in lines], [code], arguments)


if __name__ == "__main__":
    unittest.main(verbosity=2)
