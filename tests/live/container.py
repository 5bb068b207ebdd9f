#!/usr/bin/env python3
"""Runs a command in a container by crun: container.py SPEC COMMAND...

SPEC is a JSON object, see Spec. The capabilities and the filter of system calls are those that Docker gives by default; what Kubernetes
gives follows from the same pieces. The container's PID 1 is a child of this process. Its root is a directory that the caller has made.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import sys
from pathlib import Path

# Docker's documentation, "Runtime privilege and Linux capabilities".
DEFAULT_CAPABILITIES = ("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
                        "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT")
# By their numbers, linux/capability.h.
ALL_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
                    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE",
                    "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME",
                    "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
                    "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE")
# Docker's default profile allows what it lists. It leaves these calls of x86-64 out,
NEVER = ("_sysctl add_key afs_syscall create_module get_kernel_syms getpmsg io_uring_enter io_uring_register io_uring_setup kexec_file_load "
         "kexec_load keyctl migrate_pages move_pages nfsservctl personality pivot_root putpmsg query_module request_key security socket "
         "swapoff swapon sysfs tuxcall uselib userfaultfd ustat vserver").split()
# and allows these to those alone who have one of the capabilities.
WITH_CAPABILITY = {
    "SYS_ADMIN": "bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie lsm_get_self_attr lsm_list_modules "
                 "lsm_set_self_attr mount mount_setattr move_mount open_tree perf_event_open quotactl quotactl_fd setdomainname "
                 "sethostname setns syslog umount2 unshare",
    "BPF": "bpf", "PERFMON": "perf_event_open", "SYSLOG": "syslog", "SYS_BOOT": "reboot", "SYS_CHROOT": "chroot",
    "DAC_READ_SEARCH": "open_by_handle_at", "SYS_MODULE": "delete_module finit_module init_module", "SYS_PACCT": "acct",
    "SYS_PTRACE": "kcmp pidfd_getfd process_madvise", "SYS_RAWIO": "ioperm iopl", "SYS_TIME": "clock_settime settimeofday",
    "SYS_TTY_CONFIG": "vhangup", "SYS_NICE": "get_mempolicy mbind set_mempolicy set_mempolicy_home_node"}
NEW_NAMESPACES = 0x7E020000  # CLONE_NEW…
PERSONALITIES = (0, 8, 0x20000, 0x20008, 0xFFFFFFFF)
VSOCK = 40
UNISTD = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")


@dataclasses.dataclass
class Spec:
    root: str
    add: tuple[str, ...] = ()  # capabilities beside the default ones
    drop: bool = False  # all capabilities first
    privileged: bool = False
    filtered: bool = True  # by the default profile; else not at all, which is what Kubernetes does unless it is told otherwise
    kills: tuple[str, ...] = ()  # calls that the filter answers by killing the process
    pid: str = ""  # the PID namespace: one of its own, "host", or a file
    uid: int = 0
    readonly: bool = False  # its root
    no_new_privileges: bool = False
    binds: tuple[str, ...] = ()  # of the host, at the same path, or HOST:CONTAINER
    variables: tuple[str, ...] = ()

    def prefix(self) -> tuple[str, ...]:
        """In front of a command."""
        return sys.executable, __file__, json.dumps(dataclasses.asdict(self))

    def capabilities(self) -> list[str]:
        if self.privileged:
            return sorted(name for number, name in enumerate(ALL_CAPABILITIES) if bounding_set() >> number & 1)
        return sorted({*(() if self.drop else DEFAULT_CAPABILITIES), *self.add})


def bounding_set() -> int:
    """The capabilities that there are to give: these tests may be in a container themselves."""
    return int(re.search(r"^CapBnd:\s+(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE).group(1), 16)


def seccomp(capabilities: list[str], kills: tuple[str, ...] = ()) -> dict[str, object]:
    known = set(re.findall(r"__NR_(\w+)", UNISTD.read_text()))
    gated = {name for names in WITH_CAPABILITY.values() for name in names.split()}
    allowed = known - set(NEVER) - gated
    for capability in capabilities:
        allowed |= set(WITH_CAPABILITY.get(capability, "").split()) & known
    rules: list[dict[str, object]] = [{"names": sorted(allowed - set(kills)), "action": "SCMP_ACT_ALLOW"}]

    def allow_if(name: str, operation: str, value: int) -> None:
        # A masked comparison has the mask as its `value`, and wants 0 of what that leaves.
        argument = {"index": 0, "value": value, "valueTwo": 0, "op": operation}
        rules.append({"names": [name], "action": "SCMP_ACT_ALLOW", "args": [argument]})

    allow_if("socket", "SCMP_CMP_NE", VSOCK)
    for value in PERSONALITIES:
        allow_if("personality", "SCMP_CMP_EQ", value)
    if "clone" not in allowed:
        allow_if("clone", "SCMP_CMP_MASKED_EQ", NEW_NAMESPACES)
        rules.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38})
    if kills:
        rules.append({"names": list(kills), "action": "SCMP_ACT_KILL_PROCESS"})
    return {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
            "syscalls": rules}


def mounts(spec: Spec) -> list[dict[str, object]]:
    def mount(kind: str, place: str, *options: str) -> dict[str, object]:
        return {"type": kind, "source": kind, "destination": place, "options": list(options)}

    bound = []
    for path in spec.binds:
        source, _, destination = path.partition(":")
        bound.append({"type": "bind", "source": source, "destination": destination or source, "options": ["rbind", "rw"]})
    return [mount("proc", "/proc"), mount("tmpfs", "/dev", "nosuid", "mode=755"), mount("tmpfs", "/dev/shm", "nosuid", "mode=1777"),
            mount("sysfs", "/sys", "nosuid", "noexec", "nodev", *(() if spec.privileged else ("ro",))), mount("tmpfs", "/tmp", "mode=1777"),
            *bound]


def configuration(spec: Spec, command: list[str]) -> dict[str, object]:
    capabilities = ["CAP_" + name for name in spec.capabilities()]
    # Another user than root gets none of what the bounding set has.
    sets = {"bounding": capabilities, "permitted": capabilities, "effective": capabilities}
    if spec.uid != 0:
        sets.update(permitted=[], effective=[])
    namespaces = [{"type": kind} for kind in ("mount", "ipc", "uts", "network")]
    if spec.pid != "host":
        namespaces.append({"type": "pid", "path": spec.pid} if spec.pid else {"type": "pid"})
    linux: dict[str, object] = {"namespaces": namespaces}
    if not spec.privileged:
        linux["maskedPaths"] = ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi", "/sys/firmware"]
        linux["readonlyPaths"] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
        if spec.filtered:
            linux["seccomp"] = seccomp(spec.capabilities(), spec.kills)
    variables = ["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/tmp", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1",
                 "PYTHONDONTWRITEBYTECODE=1", *spec.variables]
    process = {"terminal": False, "user": {"uid": spec.uid, "gid": spec.uid}, "args": command, "env": variables, "cwd": "/",
               "capabilities": sets, "noNewPrivileges": spec.no_new_privileges}
    return {"ociVersion": "1.0.2", "process": process, "root": {"path": spec.root, "readonly": spec.readonly}, "hostname": "container",
            "mounts": mounts(spec), "linux": linux}


def main(arguments: list[str]) -> None:
    spec = Spec(**json.loads(arguments[0]))
    name = f"proftrace-{os.getpid()}"
    bundle = Path("/run") / name
    bundle.mkdir(mode=0o700)
    (bundle / "config.json").write_text(json.dumps(configuration(spec, arguments[1:])))
    # crun looks for cgroup2, which not every machine has mounted there. It starts without any limit.
    child = os.fork()
    if child == 0:
        os.execvp("unshare", ["unshare", "--mount", "sh", "-c",
                              'if [ ! -e /sys/fs/cgroup/cgroup.procs ]; then umount -l /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; fi; '
                              'exec crun --cgroup-manager=disabled --root="$0" run -b "$0" "$1"', str(bundle), name])
    _, status = os.waitpid(child, 0)
    shutil.rmtree(bundle, ignore_errors=True)
    sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    main(sys.argv[1:])
