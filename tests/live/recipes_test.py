#!/usr/bin/env python3
"""The recipes of docs/tasks for containers, pods and groups: crun does what Docker, kubectl and a cluster would, with the capabilities,
the user, the namespaces and the root directory that the recipe gives."""

from __future__ import annotations

import dataclasses
import grp
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import live
import yaml
from container import Spec
from container_case import ContainerTest, first_of
from live import Result

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "proftrace:0.1.0"  # starts proftrace
CAPABILITY = re.compile(r"[A-Z_]+")


def recipes(page: str, program: str) -> list[list[str]]:
    """The words of the fenced commands of a page that begin so."""
    text = (ROOT / "docs/tasks" / page).read_text(encoding="utf-8")
    fences = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line for fence in fences for line in fence.replace("\\\n", " ").splitlines()]
    return [shlex.split(line) for line in lines if line.startswith(program + " ")]


def security(context: dict[str, object], spec: Spec) -> Spec:
    """The container that this securityContext of Kubernetes gives. What it does not say comes from `spec`."""
    capabilities = context.get("capabilities", {})
    assert isinstance(capabilities, dict)
    assert set(capabilities) <= {"add", "drop"} and capabilities.get("drop", ["ALL"]) == ["ALL"]
    for name in capabilities.get("add", []):
        assert CAPABILITY.fullmatch(name) and not name.startswith("CAP_"), name
    unknown = set(context) - {"capabilities", "privileged", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "seccompProfile"}
    assert not unknown, unknown
    profile = context.get("seccompProfile")
    assert profile in (None, {"type": "RuntimeDefault"})
    return dataclasses.replace(spec, add=(*spec.add, *capabilities.get("add", [])), drop="drop" in capabilities,
                               privileged=bool(context.get("privileged")) or spec.privileged,
                               no_new_privileges=context.get("allowPrivilegeEscalation") is False,
                               readonly=bool(context.get("readOnlyRootFilesystem")), filtered=profile is not None)


class RecipesTest(ContainerTest):
    def run_short(self, spec: Spec, words: list[str], seconds: str = "300ms") -> "subprocess.CompletedProcess[bytes]":
        """proftrace's words of a recipe, in a shorter window."""
        words = [seconds if before == "-d" else word for before, word in zip(["", *words], words)]
        return subprocess.run([*spec.prefix(), *words], capture_output=True, timeout=live.WORK_S, cwd=self.base)

    def assert_operators(self, result: Path) -> None:
        self.assertGreater(Result(result).summary["events"]["operators"], 100)

    def test_docker_run(self) -> None:
        beside, own = recipes("containers.md", "docker")
        for words in (beside, own):
            self.assertEqual(words[:3], ["docker", "run", "--rm"])
        at = beside.index(IMAGE)
        options = beside[3:at]
        capabilities = tuple(value for option, value in zip(options, options[1:]) if option == "--cap-add")
        self.assertEqual(sorted(capabilities), ["BPF", "PERFMON", "SYS_PTRACE"])
        self.assertIn("--pid=container:trainer", options)
        self.assertEqual(options[options.index("-v") + 1], "$PWD:/out")
        spec = self.beside_the_job(add=capabilities)
        spec = dataclasses.replace(spec, binds=(*spec.binds, f"{self.result}:/out"))
        done = self.run_short(spec, [str(self.program), *beside[at + 1:]])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_operators(self.result / "result")
        # The image of the other one is the job's own.
        script = self.result / "train.py"
        script.write_text("import torch\nfor _ in range(2000): torch.ones(8, 8) @ torch.ones(8, 8)\n")
        shutil.rmtree(self.result / "result")
        command = [{"proftrace": str(self.program), "train.py": "/out/train.py", "python3": self.python}.get(word, word) for word in own[4:]]
        spec = dataclasses.replace(self.spec(), binds=(*self.spec().binds, f"{self.result}:/out"))
        done = self.run_short(spec, command)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_operators(self.result / "result")

    def test_kubectl_debug(self) -> None:
        for words in recipes("kubernetes.md", "kubectl"):
            if words[1] != "debug":
                self.assertEqual(words[1:3], ["apply", "-f"])
                self.assertTrue((ROOT / words[3]).is_file())
                continue
            with self.subTest(words[2]):
                self.debug(words)

    def debug(self, words: list[str]) -> None:
        at = words.index("--")
        options = dict(word.removeprefix("--").partition("=")[::2] for word in words[3:at])
        self.assertEqual(options.pop("image"), IMAGE)
        given = {"general": {"add": ("SYS_PTRACE",)}, "sysadmin": {"privileged": True}}[options.pop("profile")]
        if words[2].startswith("node/"):
            spec = self.spec(pid="host", **given)
        else:
            options.pop("target")
            spec = self.beside_the_job(**given)
        if "custom" in options:
            custom = yaml.safe_load((ROOT / options.pop("custom")).read_text())
            self.assertEqual(set(custom), {"securityContext", "env"})
            spec = security(custom["securityContext"], spec)
            spec = dataclasses.replace(spec, variables=tuple(f"{one['name']}={one['value']}" for one in custom["env"]))
        self.assertEqual(options, {"attach": "", "quiet": ""})
        command = words[at + 1:]
        self.assertEqual((command[0], command[-2]), ("proftrace", ">"))
        done = self.run_short(spec, [str(self.program), *command[1:-2]])
        self.assertEqual(done.returncode, 0, done.stderr)
        archive = self.directory / command[-1]
        archive.write_bytes(done.stdout)
        report = self.run_proftrace("report", archive)
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertIn("aten::", report.stdout)

    def test_daemon_set(self) -> None:
        document = yaml.safe_load((ROOT / "examples/kubernetes/flight-recorder.yaml").read_text())
        self.assertEqual((document["apiVersion"], document["kind"]), ("apps/v1", "DaemonSet"))
        template = document["spec"]["template"]
        self.assertLessEqual(document["spec"]["selector"]["matchLabels"].items(), template["metadata"]["labels"].items())
        pod = template["spec"]
        (container,) = pod["containers"]
        self.assertTrue(pod["hostPID"])
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        self.assertEqual(set(mounts), {volume["name"] for volume in pod["volumes"]})
        spec = security(container["securityContext"], self.spec(pid="host"))
        self.assertFalse(spec.privileged)
        binds = (*spec.binds, f"{self.result}:{mounts['results']}")  # the other volume is the /tmp that each container has here
        (cache,) = container["env"]
        spec = dataclasses.replace(spec, binds=binds, variables=(f"{cache['name']}={cache['value']}",))
        (self.root / "results").mkdir(exist_ok=True)  # as the runtime does
        with subprocess.Popen([*spec.prefix(), str(self.program), *container["args"]], stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            said = ""
            while "recording" not in said:
                line = tracer.stderr.readline()
                self.assertNotEqual(line, "", said)
                said += line
            time.sleep(1)  # so much is to be in the window
            os.kill(first_of(tracer.pid), signal.SIGTERM)
            rest = tracer.stderr.read()
        self.assertEqual(tracer.returncode, 0, said + rest)
        (dump,) = self.result.glob(f"*/dump_0")
        self.assert_operators(dump)

    def test_setcap_for_a_group(self) -> None:
        page = (ROOT / "docs/tasks/without-root.md").read_text()
        commands = re.search(r"^\| a group of users \| `([^`]+)` \|$", page, re.MULTILINE).group(1)
        program = self.shared / "proftrace-of-a-group"
        shutil.copy(live.BINARY, program)
        group = grp.getgrgid(1)
        script = commands.replace("sudo ", "").replace("FILE", str(program)).replace("profilers", group.gr_name)
        subprocess.run(["sh", "-ec", script], check=True)
        user = ("setpriv", f"--reuid={live.NOBODY}", f"--regid={live.NOBODY}")
        os.chown(self.result, live.NOBODY, live.NOBODY)
        record = (str(program), "-p", str(self.job.pid), "-d", "300ms", "--tier", "bpf", "--format", "none", "--force", "-o", str(self.result))
        environment = {**os.environ, "PROFTRACE_CACHE_DIR": f"{self.shared}/cache-of-a-user"}
        (self.shared / "cache-of-a-user").mkdir()
        os.chown(self.shared / "cache-of-a-user", live.NOBODY, live.NOBODY)
        done = subprocess.run([*user, f"--groups={group.gr_gid}", *record], env=environment, capture_output=True, text=True, timeout=live.WORK_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_operators(self.result)
        # setpriv itself may still start any file.
        done = subprocess.run([*user, "--clear-groups", "sh", "-c", 'exec "$0" "$@"', *record], capture_output=True, text=True, timeout=live.WORK_S)
        self.assertIn("Permission denied", done.stderr)


if __name__ == "__main__":
    live.run(own_host=True)
