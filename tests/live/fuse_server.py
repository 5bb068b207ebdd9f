#!/usr/bin/env python3
"""A read-only FUSE file system that shows a folder at its own place, to the command that is started here alone.

    fuse_server.py FOLDER USER [allow_other] -- COMMAND    as root

USER has mounted it, and without `allow_other` nobody else may open its files, root neither. The command has a mount namespace of its own. This process is
the server: once it is stopped, what touches the folder there waits. Ends with the command, with its exit code.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
import threading

LOOKUP, GETATTR, READLINK, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 1, 3, 5, 14, 15, 17, 18, 25, 26
OPENDIR, READDIR, RELEASEDIR, FORGET, INTERRUPT, BATCH_FORGET = 27, 28, 29, 2, 36, 42
IN_HEADER = struct.Struct("<IIQQIIIHH")
VALID_S = 0  # the kernel asks again each time
KEEP_CACHE, MAX_PAGES = 2, 1 << 22
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000
LIBC = ctypes.CDLL(None, use_errno=True)


def check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Server:
    def __init__(self, folder: str) -> None:
        self.root = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        self.device = os.open("/dev/fuse", os.O_RDWR)
        self.paths = {1: "."}
        self.numbers = {".": 1}

    def attributes(self, path: str, number: int) -> bytes:
        facts = os.stat(path, dir_fd=self.root)
        return struct.pack("<6Q10I", number, facts.st_size, facts.st_blocks, int(facts.st_atime), int(facts.st_mtime),
                           int(facts.st_ctime), 0, 0, 0, facts.st_mode, 1, facts.st_uid, facts.st_gid, 0, 4096, 0)

    def reply(self, opcode: int, node: int, body: bytes) -> bytes:
        path = self.paths.get(node, ".")
        if opcode == INIT:
            _, _, ahead, _ = struct.unpack_from("<4I", body)
            return struct.pack("<4IHHIIHHI7I", 7, 31, ahead, 1 | MAX_PAGES, 12, 9, 131072, 1, 256, 0, 0, *([0] * 7))
        if opcode == LOOKUP:
            child = os.path.normpath(os.path.join(path, body.rstrip(b"\0").decode(errors="surrogateescape")))
            number = self.numbers.setdefault(child, len(self.numbers) + 1)
            entry = self.attributes(child, number)
            self.paths[number] = child
            return struct.pack("<4QII", number, 0, VALID_S, VALID_S, 0, 0) + entry
        if opcode == GETATTR:
            return struct.pack("<QII", VALID_S, 0, 0) + self.attributes(path, node)
        if opcode in (OPEN, OPENDIR):
            return struct.pack("<QIi", os.open(path, os.O_RDONLY, dir_fd=self.root), KEEP_CACHE, 0)
        if opcode == READ:
            handle, offset, size = struct.unpack_from("<QQI", body)
            return os.pread(handle, size, offset)
        if opcode == READDIR:
            _, offset, _ = struct.unpack_from("<QQI", body)
            if offset:
                return b""
            names = [os.fsencode(name) for name in os.listdir(f"/proc/self/fd/{self.root}/{path}")][:40]
            return b"".join(struct.pack("<QQII", 2, i + 1, len(name), 0) + name + bytes(-len(name) % 8)
                            for i, name in enumerate(names))
        if opcode in (RELEASE, RELEASEDIR):
            os.close(struct.unpack_from("<Q", body)[0])
            return b""
        if opcode == STATFS:
            return struct.pack("<5Q4I6I", 0, 0, 0, 0, 0, 4096, 255, 4096, 0, *([0] * 6))
        raise OSError(errno.ENOSYS, "")

    def run(self) -> None:
        while True:
            try:
                request = os.read(self.device, 1 << 20)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                return
            _, opcode, unique, node, *_ = IN_HEADER.unpack_from(request)
            if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            code, answer = 0, b""
            try:
                answer = self.reply(opcode, node, request[IN_HEADER.size:])
            except OSError as error:
                code = -error.errno
            try:
                os.write(self.device, struct.pack("<IiQ", 16 + len(answer), code, unique) + answer)
            except OSError:
                continue


def main(arguments: list[str]) -> int:
    split = arguments.index("--")
    folder, user = arguments[0], int(arguments[1])
    options = "".join(f",{option}" for option in arguments[2:split])
    server = Server(folder)
    is_mounted = os.pipe()
    child = os.fork()
    if child == 0:
        check(LIBC.unshare(CLONE_NEWNS))
        if os.path.ismount("/"):  # in a chroot it is none, and nobody else sees what is mounted here
            check(LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
        mode = stat.S_IFMT(os.stat(folder).st_mode)
        data = f"fd={server.device},rootmode={mode:o},user_id={user},group_id={user}{options}".encode()
        check(LIBC.mount(b"tested", folder.encode(), b"fuse.tested", 1 | 2 | 4, data))
        os.write(is_mounted[1], b"m")
        os.execvp(arguments[split + 1], arguments[split + 1:])
    os.close(is_mounted[1])
    if os.read(is_mounted[0], 1):  # before that there is nothing to serve
        threading.Thread(target=server.run, daemon=True).start()
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xff)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
