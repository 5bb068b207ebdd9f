#!/usr/bin/env python3
"""Checks what old kernels and libraries ask of BPF objects, and new ones do not: check-bpf-objects.py OBJECT.bpf.o...

Calls in programs have to fit into what kernels before 6.13 give them. All functions of a program that are in each other
have 512 bytes of stack together, each frame rounded up to 32 bytes (16 since 6.10), and there may be eight of them
(check_max_stack_depth() in the kernel's verifier.c). From 6.13 on large frames lie elsewhere, so that those kernels do
not tell. Callbacks of bpf_loop() count as calls.

libbpf before 0.6 knows constants in .rodata only. A compiler puts the initial values of a local structure that are not all zero
into a section of their own (.rodata.cst32): they have to be assigned one by one.
"""
import struct
import sys

MOST_STACK_BYTES = 512
MOST_CALLS = 8
FRAME_BYTES = 32  # what a frame is rounded up to

INSTRUCTION_BYTES = 8
FRAME_POINTER = 10
LOAD, STORES = 0x1, (0x2, 0x3)  # classes of operations: BPF_LDX; BPF_ST, BPF_STX
MOVE, ADD, CALL, WIDE_LOAD = 0xBF, 0x07, 0x85, 0x18  # mov64 reg; add64 imm; call; ld_imm64
PSEUDO_CALL, PSEUDO_FUNCTION = 1, 4

SYMBOL_TABLE, RELOCATIONS = 2, 9  # SHT_SYMTAB, SHT_REL
EXECUTABLE = 4  # SHF_EXECINSTR
FUNCTION, SECTION = 2, 3  # STT_FUNC, STT_SECTION


class Function:
    def __init__(self, name, is_program):
        self.name = name
        self.is_program = is_program
        self.frame_bytes = 0
        self.called = set()


def text_at(data, offset):
    return data[offset : data.index(b"\0", offset)].decode()


class Object:
    """Functions of a BPF object by (section, byte)."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise SystemExit(f"{path}: not an ELF file of 64 bits, little endian")
        self.sections = self.read_sections()
        self.symbols = self.read_symbols()
        self.functions = {}
        for name, kind, section, value, size in self.symbols:
            if kind == FUNCTION:
                is_program = self.sections[section]["name"] != ".text"
                self.functions[section, value] = Function(name, is_program)
                self.functions[section, value].size = size
        self.relocations = self.read_relocations()
        for (section, value), function in self.functions.items():
            self.read_function(section, value, function)

    def read_sections(self):
        offset = struct.unpack_from("<Q", self.data, 40)[0]
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        sections = []
        for i in range(count):
            name, kind, flags, _, at, length, link, info = struct.unpack_from("<IIQQQQII", self.data, offset + i * size)
            sections.append({"name": name, "kind": kind, "flags": flags, "at": at, "length": length, "link": link, "info": info})
        for section in sections:
            section["name"] = text_at(self.data, sections[names]["at"] + section["name"])
        return sections

    def read_symbols(self):
        symbols = []
        for table in self.sections:
            if table["kind"] == SYMBOL_TABLE:
                names = self.sections[table["link"]]["at"]
                for at in range(table["at"], table["at"] + table["length"], 24):
                    name, info, _, section, value, size = struct.unpack_from("<IBBHQQ", self.data, at)
                    symbols.append((text_at(self.data, names + name), info & 0xF, section, value, size))
        return symbols

    def read_relocations(self):
        """(section, byte) -> symbol"""
        found = {}
        for table in self.sections:
            if table["kind"] == RELOCATIONS and self.sections[table["info"]]["flags"] & EXECUTABLE:
                for at in range(table["at"], table["at"] + table["length"], 16):
                    offset, info = struct.unpack_from("<QQ", self.data, at)
                    found[table["info"], offset] = self.symbols[info >> 32]
        return found

    def target(self, section, offset, immediate):
        """The function that an instruction calls or has the address of; None: not one of this object's."""
        is_call = self.data[self.sections[section]["at"] + offset] == CALL
        symbol = self.relocations.get((section, offset))
        if symbol is None:
            return self.functions.get((section, offset + (immediate + 1) * INSTRUCTION_BYTES)) if is_call else None
        _, kind, its_section, value, _ = symbol
        if kind == SECTION:
            value += (immediate + 1) * INSTRUCTION_BYTES if is_call else immediate
        return self.functions.get((its_section, value))

    def read_function(self, section, begin, function):
        copy = None  # the register that holds the frame pointer
        for offset in range(begin, begin + function.size, INSTRUCTION_BYTES):
            operation, registers, distance, immediate = struct.unpack_from("<BBhi", self.data, self.sections[section]["at"] + offset)
            to, source = registers & 0xF, registers >> 4
            depth = 0
            if (operation & 7 == LOAD and source == FRAME_POINTER) or (operation & 7 in STORES and to == FRAME_POINTER):
                depth = -distance
            elif operation == MOVE and source == FRAME_POINTER:
                copy = to
            elif operation == ADD and to == copy:
                depth, copy = -immediate, None
            function.frame_bytes = max(function.frame_bytes, depth)
            if (operation == CALL and source == PSEUDO_CALL) or operation == WIDE_LOAD:
                called = self.target(section, offset, immediate)
                if called:
                    function.called.add(called)


def rounded(size):
    return (max(size, 1) + FRAME_BYTES - 1) // FRAME_BYTES * FRAME_BYTES


def longest(function, weight, known):
    """The most that calls from `function` on weigh, and these calls."""
    if function not in known:
        inner = max((longest(called, weight, known) for called in function.called), key=lambda way: way[0], default=(0, []))
        known[function] = (inner[0] + weight(function), [function] + inner[1])
    return known[function]


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__.splitlines()[0])
    problems = 0
    for path in sys.argv[1:]:
        stacks, depths = {}, {}
        bpf_object = Object(path)
        for name in (section["name"] for section in bpf_object.sections if section["name"].startswith(".rodata.")):
            problems += 1
            print(f"{path}: constants in {name}, where libbpf before 0.6 does not find them")
        programs = [function for function in bpf_object.functions.values() if function.is_program]
        if not programs:
            raise SystemExit(f"{path}: no program in it")
        for program in programs:
            stack, way = longest(program, lambda function: rounded(function.frame_bytes), stacks)
            calls, deepest = longest(program, lambda _: 1, depths)
            if stack > MOST_STACK_BYTES:
                problems += 1
                print(f"{path}: {program.name} needs {stack} bytes of stack, {MOST_STACK_BYTES} are given:",
                      " > ".join(f"{function.name} ({function.frame_bytes})" for function in way))
            if calls > MOST_CALLS:
                problems += 1
                print(f"{path}: {program.name} has {calls} calls in each other, {MOST_CALLS} are allowed:",
                      " > ".join(function.name for function in deepest))
        most = max(longest(program, None, stacks)[0] for program in programs)
        print(f"check-bpf-objects: {path}: {len(programs)} programs, {most} bytes at most")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
