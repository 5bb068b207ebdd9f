#!/usr/bin/env python3
"""proftrace.profile beside torch.profiler.profile: the same programs, and what goes wrong in them."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import textwrap
import unittest
from pathlib import Path

import live
from live import HERE, LiveTest

PACKAGE = HERE.parents[1] / "userspace" / "python"
BEGIN = """
import gzip, io, json, os, sys, threading, time, warnings
import torch, torch.profiler
import proftrace
from proftrace import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler
torch.set_num_threads(1)
torch.manual_seed(0)
model, values = torch.nn.Linear(8, 8), torch.ones(4, 8)
def work(count=1):
    for _ in range(count):
        model(values).sum().backward()
def counts(rows):
    return {row.key: row.count for row in rows}
def adds(profiler):
    return counts(profiler.key_averages()).get("aten::addmm", 0)
def tell(**said):
    print(json.dumps(said))
work(3)
"""


class ProfileTest(LiveTest):
    def start_python(self, program: str, **variables: str) -> "subprocess.Popen[str]":
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PROFTRACE_PROGRAM": str(live.BINARY), "PYTHONDONTWRITEBYTECODE": "1",
                       "TMPDIR": str(self.temporary), **variables}
        return subprocess.Popen([str(self.python), "-c", BEGIN + textwrap.dedent(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                cwd=self.directory, env=environment)

    def run_python(self, program: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        process = self.start_python(program, **variables)
        output, errors = process.communicate(timeout=live.WORK_S)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def says(self, program: str, **variables: str) -> dict:  # type: ignore[type-arg]
        done = self.run_python(program, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    @property
    def temporary(self) -> Path:
        folder = Path(self.directory) / "temporary"
        folder.mkdir(exist_ok=True)
        return folder

    def nothing_is_left(self) -> None:
        """No result that was temporary."""
        self.assertEqual([name for name in os.listdir(self.temporary) if name.startswith("proftrace-")], [])


class TutorialTest(ProfileTest):
    """What torch.profiler's two tutorials do, with both profilers in the same process and over the same rows."""

    def test_the_recipe(self) -> None:
        said = self.says("""
            net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2),
                                      torch.nn.Flatten(), torch.nn.Linear(32, 10))
            images = torch.randn(5, 3, 32, 32)
            net(images)
            options = dict(record_shapes=True, profile_memory=True, with_flops=True)
            activities = [torch.profiler.ProfilerActivity.CPU]
            # Ours within: what torch's own does when it starts and ends are rows, too.
            with torch.profiler.profile(activities=activities, **options) as theirs, profile(activities=activities, **options) as ours:
                with record_function("model_inference"):
                    net(images)
            has_kineto = torch.autograd.kineto_available()
            def rows(profiler, **grouping):
                return {(row.key, str(row.input_shapes)): row for row in profiler.key_averages(**grouping)
                        if not row.key.startswith(("cuda", "[memory]"))}
            def facts(rows):
                # A torch without Kineto (Debian's 1.13) counts memory by other rules.
                return {f"{name} {shapes}": [row.count, row.flops or 0] + [row.cpu_memory_usage, row.self_cpu_memory_usage] * has_kineto
                        for (name, shapes), row in rows.items()}
            a, b = rows(ours), rows(theirs)
            table = ours.key_averages().table(sort_by="cpu_time_total", row_limit=3)
            other = theirs.key_averages().table(sort_by="cpu_time_total", row_limit=3)
            def columns(text):
                return text.splitlines()[1].split("  ")
            ours.export_chrome_trace("trace.json")
            ours.export_chrome_trace("trace.json.gz")
            plain, packed = json.load(open("trace.json")), json.load(gzip.open("trace.json.gz"))
            events = {name: [event.name for event in profiler.events() if event.name != "[memory]"] for name, profiler in (("ours", ours), ("theirs", theirs))}
            tell(facts=[facts(a), facts(b)], shapes=[facts(rows(p, group_by_input_shape=True)) for p in (ours, theirs)],
                 columns=[[c for c in columns(t) if c.strip()] for t in (table, other)], rows=[len(t.splitlines()) for t in (table, other)],
                 ends=[t.rstrip().splitlines()[-1].split(":")[0] for t in (table, other)], events=events,
                 totals=[[r[key].cpu_time_total for key in a] for r in (a, b)] if a.keys() == b.keys() else [],
                 selfs=[[r[key].self_cpu_time_total for key in a] for r in (a, b)] if a.keys() == b.keys() else [],
                 average=[p.key_averages().total_average().count for p in (ours, theirs)],
                 same=plain["traceEvents"] == packed["traceEvents"], names=sum(e.get("name") == "aten::conv2d" for e in plain["traceEvents"]))
            """)
        self.assertEqual(*said["facts"])
        self.assertEqual(*said["shapes"])
        self.assertEqual(*said["columns"])
        self.assertEqual(*said["rows"])
        self.assertEqual(*said["ends"])
        self.assertEqual(*said["average"])
        self.assertEqual(said["events"]["ours"], said["events"]["theirs"])
        # The same calls at the same time: each profiler's own share is what they differ by.
        for what in ("totals", "selfs"):
            self.assertGreater(len(said[what][0]), 10)
            self.assertLess(abs(sum(said[what][0]) / sum(said[what][1]) - 1), 0.5, said[what])
        self.assertTrue(said["same"])
        self.assertEqual(said["names"], 1)

    def test_stacks(self) -> None:
        said = self.says("""
            def inner():
                work()
            def outer():
                inner()
            config = getattr(torch._C._profiler, "_ExperimentalConfig")(verbose=True)
            with profile(with_stack=True, experimental_config=config) as ours:
                outer()
            with torch.profiler.profile(with_stack=True, experimental_config=config) as theirs:
                outer()
            def stack(profiler):
                row = next(row for row in profiler.key_averages(group_by_stack_n=20) if row.key == "aten::addmm")
                return [frame.split(": ")[-1] for frame in row.stack if "<string>" in frame]
            ours.export_stacks("stacks", "self_cpu_time_total")
            table = ours.key_averages(group_by_stack_n=5).table(sort_by="self_cpu_time_total", row_limit=2)
            event = next(event for event in ours.events() if event.name == "aten::addmm")
            tell(stacks=[stack(ours), stack(theirs)], table="Source Location" in table, event=[f.split(": ")[-1] for f in event.stack if "<string>" in f],
                 lines=[line for line in open("stacks") if "aten::addmm" in line])
            """)
        self.assertEqual(*said["stacks"])
        self.assertEqual(said["stacks"][0][:3], ["work", "inner", "outer"])
        self.assertEqual(said["event"][:3], ["work", "inner", "outer"])
        self.assertTrue(said["table"])
        self.assertRegex(said["lines"][0], r"outer;.*inner;.*work;.*aten::addmm.* \d+\n")

    def test_with_tensorboard(self) -> None:
        said = self.says("""
            net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 10))
            criterion, optimizer = torch.nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
            data = [(torch.randn(3, 8, 8), i % 10) for i in range(64)]
            loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
            def train(batch):
                loss = criterion(net(batch[0]), batch[1])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            def run(module, folder):
                ready = []
                handler = module.tensorboard_trace_handler(folder)
                def on_ready(profiler):
                    names = counts(profiler.key_averages())
                    ready.append([profiler.step_num, names.get("ProfilerStep*"), names.get("aten::conv2d"), names.get("aten::mm"),
                                  sum(count for name, count in names.items() if name.startswith("enumerate(DataLoader)"))])
                    handler(profiler)
                with module.profile(activities=[ProfilerActivity.CPU] if module is proftrace else [torch.profiler.ProfilerActivity.CPU],
                                    schedule=module.schedule(wait=1, warmup=1, active=3, repeat=2), on_trace_ready=on_ready,
                                    record_shapes=True, with_stack=True) as profiler:
                    for step, batch in enumerate(loader):
                        if step >= (1 + 1 + 3) * 2:
                            break
                        train(batch)
                        profiler.step()
                return ready
            def steps(folder):
                found = []
                for name in sorted(os.listdir(folder), key=lambda name: int(name.split(".")[-4])):
                    document = json.load(open(os.path.join(folder, name)))
                    # A torch that was built without Kineto writes the list alone.
                    events = document if isinstance(document, list) else document["traceEvents"]
                    found.append(sorted(e["name"] for e in events if e.get("ph") == "X" and e["name"].startswith("ProfilerStep#")))
                return found
            ready = [run(proftrace, "log/ours"), run(torch.profiler, "log/theirs")]
            # torch 1.13 gave a step the number of the one before it.
            is_late = torch.__version__.startswith("1.")
            tell(ready=ready, steps=[steps("log/ours"), steps("log/theirs")], names=os.listdir("log/ours"), is_late=is_late)
            """)
        self.assertEqual(*said["ready"])
        if not said["is_late"]:
            self.assertEqual(*said["steps"])
        self.assertEqual([row[0] for row in said["ready"][0]], [5, 10])
        self.assertEqual(said["steps"][0], [[f"ProfilerStep#{step}" for step in steps] for steps in ((2, 3, 4), (7, 8, 9))])
        for name in said["names"]:
            self.assertRegex(name, rf"\A{os.uname().nodename}_\d+\.\d+\.pt\.trace\.json\Z")
        self.nothing_is_left()


class ScheduleTest(ProfileTest):
    def test_every_schedule_is_torchs_own(self) -> None:
        """Thousands of schedules, step by step, in one process: no recording is needed to compare them."""
        said = self.says("""
            import inspect, itertools
            warnings.simplefilter("ignore")
            has_shift = "skip_first_wait" in inspect.signature(torch.profiler.schedule).parameters
            different, compared = [], 0
            for wait, warmup, active, repeat, skip, shift in itertools.product(range(3), range(3), range(1, 4), range(3), range(4), range(2)):
                words = dict(wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=skip)
                if shift and not has_shift:
                    continue
                words.update({"skip_first_wait": shift} if shift else {})
                mine, own = schedule(**words), torch.profiler.schedule(**words)
                compared += 1
                if [mine(i).name for i in range(40)] != [own(i).name for i in range(40)]:
                    different.append(words)
            refused = []
            for words in (dict(wait=-1, warmup=0, active=1), dict(wait=0, warmup=0, active=0), dict(wait=0, warmup=0, active=1, repeat=-1)):
                for function in (schedule, torch.profiler.schedule):
                    try:
                        function(**words)
                    except (ValueError, AssertionError):
                        refused.append(function.__module__.split(".")[0])
            tell(different=different, compared=compared, refused=refused)
            """)
        self.assertEqual(said["different"], [])
        self.assertGreaterEqual(said["compared"], 324)
        self.assertEqual(said["refused"], ["proftrace", "torch"] * 3)

    def test_cycles_that_follow_each_other(self) -> None:
        """active=1, no wait: each step is a recording, the last one is cut by the end of the block."""
        said = self.says("""
            found = []
            with profile(schedule=schedule(wait=0, warmup=0, active=1), on_trace_ready=lambda p: found.append([p.step_num, adds(p)])) as profiler:
                for count in (1, 2):
                    work(count)
                    profiler.step()
            tell(found=found, last=adds(profiler))
            """)
        self.assertEqual(said, {"found": [[1, 1], [2, 2], [2, 0]], "last": 0})

    def test_what_is_kept_and_accumulated(self) -> None:
        said = self.says("""
            def run(**options):
                found = []
                with profile(schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=2, skip_first=1),
                             on_trace_ready=lambda p: found.append(sum(e.name == "aten::addmm" for e in p.events())), **options) as profiler:
                    for count in (1, 2, 3, 4, 5, 6):
                        work(count)
                        profiler.step()
                try:
                    rows = adds(profiler)
                except proftrace.ProftraceError as error:
                    rows = str(error)
                return [found, sum(e.name == "aten::addmm" for e in profiler.events()), rows]
            tell(plain=run(), accumulated=run(acc_events=True))
            """)
        self.assertEqual(said["plain"], [[3, 5], 5, 5])
        self.assertEqual(said["accumulated"][:2], [[3, 8], 8])
        self.assertIn("a table is made of one", said["accumulated"][2])
        self.nothing_is_left()

    def test_nothing_active(self) -> None:
        """step() is never called, or the block ends before the first active step: torch calls no handler either."""
        said = self.says("""
            called, errors = [], []
            for words in (dict(wait=1, warmup=1, active=1), dict(wait=0, warmup=1, active=1), dict(wait=0, warmup=1, active=1, skip_first=5)):
                with profile(schedule=schedule(**words), on_trace_ready=called.append) as profiler:
                    work()
                for ask in (profiler.key_averages, profiler.events, lambda: profiler.export_chrome_trace("x.json")):
                    try:
                        ask()
                    except proftrace.ProftraceError as error:
                        errors.append(str(error))
            tell(called=len(called), errors=errors, files=os.listdir("."))
            """)
        self.assertEqual((said["called"], len(said["errors"]), set(said["errors"])), (0, 9, {said["errors"][0]}))
        self.assertIn("nothing was recorded", said["errors"][0])
        self.assertNotIn("x.json", said["files"])

    def test_a_schedule_that_stops_in_the_middle(self) -> None:
        said = self.says("""
            A = proftrace.ProfilerAction
            called = []
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with profile(schedule=lambda step: [A.RECORD, A.NONE][min(step, 1)], on_trace_ready=called.append) as profiler:
                    work(2)
                    profiler.step()
                    work(4)
            tell(called=len(called), adds=adds(profiler), caught=[str(w.message) for w in caught])
            """)
        self.assertEqual((said["called"], said["adds"]), (0, 2))
        self.assertIn("goes from RECORD to NONE", said["caught"][0])


class FaultTest(ProfileTest):
    def test_errors_of_the_block_and_of_the_handler(self) -> None:
        said = self.says("""
            said, called = [], []
            def run(handler):
                try:
                    with profile(on_trace_ready=handler) as profiler:
                        work(2)
                        raise KeyError("mine")
                except Exception as error:
                    said.append([type(error).__name__, adds(profiler)])
            def bad(profiler):
                raise OSError("handler")
            warnings.simplefilter("ignore")
            run(called.append)
            run(bad)
            try:
                with profile(on_trace_ready=bad):
                    work()
            except OSError as error:
                said.append([str(error), 0])
            tell(said=said, called=len(called))
            """)
        self.assertEqual(said, {"said": [["KeyError", 2], ["KeyError", 2], ["handler", 0]], "called": 1})

    def test_two_in_a_row_and_one_within_another(self) -> None:
        said = self.says("""
            found = []
            for count in (2, 3):
                with profile() as profiler:
                    work(count)
                found.append(adds(profiler))
            inner = None
            with profile() as outer:
                work(1)
                try:
                    with profile() as inner:
                        work(1)
                    nested = [adds(inner), ""]
                except proftrace.ProftraceError as error:
                    nested = [error.exit_code, str(error)]
                work(1)
            again = profile()
            again.start(); work(4); again.stop(); again.stop()
            try:
                again.start(); again.start()
            except proftrace.ProftraceError as error:
                twice = str(error)
            again.stop()
            tell(found=found, outer=adds(outer), nested=nested, twice=twice, again=adds(again))
            """)
        self.assertEqual((said["found"], said["outer"]), ([2, 3], 2))
        self.assertNotEqual(said["nested"][0], 0)
        self.assertIn("patched by proftrace", said["nested"][1])
        self.assertIn("already", said["twice"])
        self.nothing_is_left()

    def test_forks_and_workers_of_a_loader(self) -> None:
        """A forked child has no recording: what it does with its copy of the profiler ends nothing of its parent's."""
        said = self.says("""
            class Data(torch.utils.data.Dataset):
                def __len__(self):
                    return 6
                def __getitem__(self, i):
                    return torch.addmm(torch.ones(2, 2), torch.ones(2, 2), torch.ones(2, 2))
            called = []
            with profile(on_trace_ready=lambda p: called.append(os.getpid())) as profiler:
                work(1)
                child = os.fork()
                if child == 0:
                    profiler.step()
                    profiler.stop()
                    raise SystemExit(len(called))
                status = os.waitpid(child, 0)[1]
                for batch in torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2):
                    pass
                work(1)
            tell(status=status, called=len(called), adds=adds(profiler))
            """)
        self.assertEqual(said, {"status": 0, "called": 1, "adds": 2})
        self.nothing_is_left()

    def test_a_pool_of_threads(self) -> None:
        said = self.says("""
            from concurrent.futures import ThreadPoolExecutor
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(work, [1] * 4))
                with profile() as profiler:
                    list(pool.map(work, [2] * 10))
            threads = {event.thread for event in profiler.events()}
            tell(adds=adds(profiler), threads=len(threads) > 0)
            """)
        self.assertEqual(said, {"adds": 20, "threads": True})

    def test_ends_in_the_middle(self) -> None:
        for end, status in (("sys.exit(3)", 3), ("raise SystemExit(4)", 4), ("del profiler; sys.exit(5)", 5)):
            with self.subTest(end):
                done = self.run_python(f"""
                    profiler = profile()
                    profiler.start()
                    work(2)
                    {end}
                    """)
                self.assertEqual((done.returncode, done.stderr), (status, ""))
                self.nothing_is_left()
        done = self.run_python("""
            with profile(on_trace_ready=lambda p: tell(adds=adds(p))) as profiler:
                work(2)
                sys.exit(6)
            """)
        self.assertEqual((done.returncode, json.loads(done.stdout)), (6, {"adds": 2}))

    def test_a_program_that_is_not_there(self) -> None:
        for program in ("/nowhere/proftrace", "", "/etc/passwd"):
            with self.subTest(program):
                done = self.run_python("""
                    with profile(schedule=schedule(wait=5, warmup=1, active=1)):
                        print("entered")
                    """, PROFTRACE_PROGRAM=program, PATH="/nowhere")
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertRegex(done.stderr, "PROFTRACE_PROGRAM (names|may name)")
                self.nothing_is_left()

    def test_a_recorder_that_fails_in_the_middle_of_the_job(self) -> None:
        """The job goes on, the failure is said, and whoever asks for that cycle's results is told the same."""
        said = self.says("""
            called = []
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with profile(schedule=schedule(wait=1, warmup=0, active=1, repeat=2), on_trace_ready=lambda p: called.append(adds(p))) as profiler:
                    work(1)
                    program = os.environ["PROFTRACE_PROGRAM"]
                    os.environ["PROFTRACE_PROGRAM"] = "/bin/false"
                    profiler.step()
                    work(2)
                    profiler.step()
                    try:
                        profiler.key_averages()
                    except proftrace.ProftraceError as error:
                        told = error.exit_code
                    os.environ["PROFTRACE_PROGRAM"] = program
                    work(3)
                    profiler.step()
                    work(4)
                    profiler.step()
            tell(called=called, told=told, caught=[str(w.message) for w in caught])
            """)
        self.assertEqual((said["called"], said["told"]), ([4], 1))
        self.assertEqual(len(said["caught"]), 1)
        self.assertIn("records nothing of this cycle", said["caught"][0])

    def test_a_recorder_that_is_killed(self) -> None:
        said = self.says("""
            import signal
            try:
                with profile() as profiler:
                    work(2)
                    os.kill(profiler._recording._process.pid, signal.SIGKILL)
                    work(2)
            except proftrace.ProftraceError as error:
                told = error.exit_code
            # Until its guardian has taken the jumps out, another recorder is refused.
            for _ in range(200):
                try:
                    with profile() as second:
                        work(3)
                    break
                except proftrace.ProftraceError:
                    time.sleep(0.05)
            tell(told=told, second=adds(second))
            """)
        self.assertEqual(said, {"told": -int(signal.SIGKILL), "second": 3})

    def test_without_rights(self) -> None:
        """A process that may not be looked at, by anybody but root."""
        said = self.says("""
            import ctypes
            os.setgid(65534)
            os.setuid(65534)
            ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
            try:
                with profile():
                    print("entered")
            except proftrace.ProftraceError as error:
                tell(code=error.exit_code, text=str(error))
            """, HOME="/nowhere", TMPDIR="/tmp")
        self.assertEqual(said["code"], 4)
        self.assertIn("does not let its own user look into it", said["text"])

    def test_arguments_that_have_no_counterpart(self) -> None:
        said = self.says("""
            refused = []
            config = torch._C._profiler._ExperimentalConfig(profiler_metrics=["sm__cycles"])
            class Other:
                name = "XPU"
            for words in (dict(activities=[Other]), dict(execution_trace_observer=object()), dict(custom_trace_id_callback=len),
                          dict(experimental_config=config), dict(use_cuda=False, activities=[ProfilerActivity.CUDA]), dict(no_such=1)):
                try:
                    warnings.simplefilter("ignore")
                    profile(**words)
                except (proftrace.ProftraceError, TypeError) as error:
                    refused.append(str(error))
            with profile() as plain:
                work()
            for ask in (lambda: plain.export_stacks("s"), lambda: plain.add_metadata_json("k", "{"), lambda: plain.export_memory_timeline("m.html"),
                        lambda: plain.key_averages().table(sort_by="no_such"), lambda: plain.export_chrome_trace("/nowhere/x.json"),
                        lambda: plain.key_averages(group_by_input_shape=True)):
                try:
                    ask()
                except proftrace.ProftraceError as error:
                    refused.append(str(error))
            plain.add_metadata("text", 'a "b" \\n')
            plain.add_metadata_json("list", "[1, 2]")
            plain.export_chrome_trace("t.json.gz")
            document = json.load(gzip.open("t.json.gz"))
            tell(refused=refused, metadata=[document["text"], document["list"], document["schemaVersion"]], files=sorted(os.listdir(".")))
            """)
        self.assertEqual(len(said["refused"]), 12, said["refused"])
        self.assertEqual(said["metadata"], ['a "b" \n', [1, 2], 1])
        self.assertEqual(said["files"], ["t.json.gz", "temporary"])


class ImportTest(ProfileTest):
    def test_the_import_is_quick_and_brings_nothing_else(self) -> None:
        """Beside an interpreter that does nothing: processor time, the least of several, as the machine has other work."""
        times = []
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
        for program in ("pass", "import proftrace"):
            seconds = []
            for _ in range(7):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run([str(self.python), "-c", program], check=True, env=environment)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            times.append(min(seconds))
        self.assertLess(times[1] - times[0], 0.02)
        loaded = subprocess.run([str(self.python), "-c", "import proftrace, sys; print(*sys.modules)"], capture_output=True, text=True, check=True,
                                env=environment).stdout.split()
        self.assertFalse({"torch", "numpy", "pandas", "pyarrow", "IPython"} & set(loaded))


if __name__ == "__main__":
    live.run()
