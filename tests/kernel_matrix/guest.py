"""One boot of a kernel under qemu: the host's files over 9p, a command in them, its output, files and exit code."""

from __future__ import annotations

import dataclasses
import gzip
import lzma
import os
import re
import selectors
import shutil
import subprocess
import time
from pathlib import Path
from typing import Callable

from kernels import Kernel

HERE = Path(__file__).resolve().parent
MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay"]
# A kernel is up in 3 s on a usable KVM; one that is emulated itself takes minutes.
KVM_UP_S, TCG_UP_S = 20.0, 300.0


@dataclasses.dataclass
class Outcome:
    status: int | None  # of the command; None: it did not end
    accelerator: str
    up_s: float
    wall_s: float
    out: Path


def modules_of(kernel: Kernel) -> list[Path]:
    """The files of MODULES and of what they need, in the order in which they load."""
    files: list[Path] = []
    for module in MODULES:
        said = subprocess.run(["/sbin/modprobe", "-d", str(kernel.tree), "-S", kernel.release, "--show-depends", module],
                              capture_output=True, text=True, check=True).stdout
        for line in said.splitlines():
            if line.startswith("insmod "):
                file = Path(line.split()[1])
                if file not in files:
                    files.append(file)
    return files


def make_initramfs(kernel: Kernel, path: Path) -> None:
    tree = path.with_suffix(".tree")
    shutil.rmtree(tree, ignore_errors=True)
    for folder in ("bin", "proc", "sys", "dev", "new", "modules"):
        (tree / folder).mkdir(parents=True)
    shutil.copy("/bin/busybox", tree / "bin")
    shutil.copy(HERE / "init", tree)
    names = []
    for file in modules_of(kernel):
        data = file.read_bytes()
        if file.suffix == ".xz":
            data = lzma.decompress(data)
        elif file.suffix == ".zst":
            data = subprocess.run(["zstd", "-dqc", str(file)], check=True, capture_output=True).stdout
        names.append(re.sub(r"\.(xz|zst)$", "", file.name))
        (tree / "modules" / names[-1]).write_bytes(data)
    (tree / "modules/order").write_text("".join(f"{name}\n" for name in names))
    listing = subprocess.run(["find", "."], cwd=tree, capture_output=True, check=True).stdout
    archive = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=tree, input=listing, capture_output=True, check=True).stdout
    path.write_bytes(gzip.compress(archive, 1))
    shutil.rmtree(tree)


def qemu_command(kernel: Kernel, initramfs: Path, out: Path, accelerator: str, memory: str) -> list[str]:
    cpu = {"kvm": ["-accel", "kvm", "-cpu", "host"],
           "tcg": ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max,la57=off"]}[accelerator]
    share = "local,security_model=none,multidevs=remap"
    return ["qemu-system-x86_64", *cpu, "-smp", str(min(4, os.cpu_count() or 1)), "-m", memory, "-nodefaults", "-display", "none",
            "-serial", "stdio", "-no-reboot", "-kernel", str(kernel.image), "-initrd", str(initramfs),
            "-append", "console=ttyS0 panic=-1 quiet nokaslr tsc=reliable clocksource=tsc", "-virtfs", f"{share},path=/,mount_tag=root,readonly=on",
            "-virtfs", f"{share},path={out},mount_tag=out"]


class Guest:
    """`say` gets each line of the console as it comes."""

    def __init__(self, kernel: Kernel, out: Path, memory: str, say: Callable[[str], None]) -> None:
        self.kernel = kernel
        self.out = out
        self.memory = memory
        self.say = say
        out.mkdir(parents=True, exist_ok=True)

    def run(self, command: str, accelerators: list[str], timeout_s: float) -> Outcome:
        (self.out / "command").write_text(command)
        initramfs = self.out / "initramfs"
        make_initramfs(self.kernel, initramfs)
        outcome = None
        for accelerator in accelerators:
            outcome = self._boot(initramfs, accelerator, timeout_s)
            if outcome.up_s > 0:
                break
            self.say(f"kernel_matrix: the kernel did not come up with {accelerator}")
        assert outcome is not None
        return outcome

    def _boot(self, initramfs: Path, accelerator: str, timeout_s: float) -> Outcome:
        for name in ("status", "dmesg"):
            (self.out / name).unlink(missing_ok=True)
        begin = time.monotonic()
        up_s = 0.0
        text = b""
        process = subprocess.Popen(qemu_command(self.kernel, initramfs, self.out, accelerator, self.memory),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        with (self.out / f"console-{accelerator}").open("wb") as log, selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                passed = time.monotonic() - begin
                limit = timeout_s if up_s else (KVM_UP_S if accelerator == "kvm" else TCG_UP_S)
                if passed > limit:
                    self.say(f"kernel_matrix: ended after {passed:.0f} s")
                    break
                if not selector.select(1.0):
                    continue
                data = process.stdout.read()
                if not data:
                    break
                log.write(data)
                log.flush()
                *lines, text = (text + data).split(b"\n")
                for line in lines:
                    said = line.decode("utf-8", "replace").rstrip("\r")
                    if said.startswith("kernel_matrix: up") and not up_s:
                        up_s = time.monotonic() - begin
                    self.say(said)
        process.kill()
        process.wait()
        status_file = self.out / "status"
        status = int(status_file.read_text()) if status_file.exists() else None
        return Outcome(status, accelerator, up_s, time.monotonic() - begin, self.out)
