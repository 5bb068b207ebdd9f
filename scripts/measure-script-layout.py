#!/usr/bin/env python3
"""Prints where torch's headers put the members that symbols/torch/script_layouts.cc works out: measure-script-layout.py TORCH_INCLUDE_FOLDER...

One line for each folder (site-packages/torch/include), with offsets in bytes in the order of ScriptLayout
(symbols/torch/script_names.h), then those that symbols/torch/script_names.cc works out itself. The compiler says them; nothing of torch is linked or
run. 0: the folder has no header for that (wheels before 2.8 lack CodeImpl's). Needs g++ and objcopy. Exit code: 1 where a folder's headers
cannot be compiled.
"""

from __future__ import annotations

import argparse
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = r"""
#if __has_include(<torch/csrc/jit/runtime/interpreter/code_impl.h>)
#include <torch/csrc/jit/runtime/interpreter/code_impl.h>
#define IN_CODE(member) offsetof(torch::jit::interpreter::CodeImpl, member)
#else
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#define IN_CODE(member) 0
#endif
#include <cstddef>
#include <cstdint>
using namespace torch::jit;
using c10::ClassType;
using c10::FunctionType;
using c10::QualifiedName;
using Name = decltype(ClassType::name_);
using Callee = decltype(InlinedCallStack::callee_);
using Instance = decltype(InlinedCallStack::module_instance_info_);

// Where an optional has its flag and its value. c10::optional was torch's own class once, then another name for std::optional.
template <class T, class = void>
struct Places {
  static constexpr size_t flag = offsetof(T, _M_payload._M_engaged), value = offsetof(T, _M_payload._M_payload);
};
template <class T>
struct Places<T, std::void_t<decltype(T::init_)>> {
  static constexpr size_t flag = offsetof(T, init_), value = offsetof(T, storage_);
};
using Named = Places<Name>;
using Called = Places<Callee>;
using Placed = Places<Instance>;

extern "C" const uint16_t torch_offsets[] __attribute__((section("offsets"), used)) = {
FIELDS
};

// What symbols/torch/script_names.cc takes to be the same everywhere.
static_assert(offsetof(Node, kind_) == 8 && offsetof(Node, inputs_) == 16 && offsetof(Node, outputs_) == 40 && offsetof(Node, graph_) == 88);
static_assert(offsetof(Block, input_) == 24 && offsetof(Value, node_) == 8 && offsetof(ModuleInstanceInfo, instance_name_) == 16);
static_assert(offsetof(AttributeValue, name) == 8 && offsetof(StringAttr, value_) == 16);
"""

FIELDS = {
    "code_name": "IN_CODE(function_name_)",
    "code_graph": "IN_CODE(graph_)",
    "graph_block": "offsetof(Graph, block_)",
    "node_callstack": "offsetof(Node, callstack_) + Called::value",
    "node_is_inlined": "offsetof(Node, callstack_) + Called::flag",
    "node_attributes": "offsetof(Node, values_)",
    "stack_callee": "offsetof(InlinedCallStack, callee_) + Called::value",
    "stack_has_callee": "offsetof(InlinedCallStack, callee_) + Called::flag",
    "stack_function": "offsetof(InlinedCallStack, fn_)",
    "stack_module": "offsetof(InlinedCallStack, module_instance_info_) + Placed::value + offsetof(ModuleInstanceInfo, module_type_)",
    "stack_has_module": "offsetof(InlinedCallStack, module_instance_info_) + Placed::flag",
    "class_name": "offsetof(ClassType, name_) + Named::value + offsetof(QualifiedName, qualifiedName_)",
    "class_has_name": "offsetof(ClassType, name_) + Named::flag",
    "string_bytes": "sizeof(std::string)",
    "type of value": "offsetof(Value, type_)",
    "name of function": "offsetof(GraphFunction, name_) + offsetof(QualifiedName, name_)",
    "function of type": "offsetof(FunctionType, function_)",
}


def measure(include: Path, is_new: bool, folder: Path, standard: str) -> tuple[int, ...]:
    source, made, section = folder / "layout.cc", folder / "layout.o", folder / "layout.bin"
    source.write_text(SOURCE.replace("FIELDS", ",\n".join(FIELDS.values())), encoding="utf-8")
    subprocess.run(["g++", "-c", "-w", f"-std={standard}", "-DNDEBUG", f"-D_GLIBCXX_USE_CXX11_ABI={int(is_new)}", "-fno-access-control", "-fpermissive",
                    f"-I{include}", f"-I{include}/torch/csrc/api/include", str(source), "-o", str(made)], check=True)
    subprocess.run(["objcopy", "-O", "binary", "--only-section=offsets", str(made), str(section)], check=True)
    return struct.unpack(f"<{len(FIELDS)}H", section.read_bytes())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="TORCH_INCLUDE_FOLDER")
    parser.add_argument("--old-strings", action="store_true", help="of a torch whose strings are those of before C++11")
    parser.add_argument("--std", default="c++17", help="the headers of newer versions need c++20")
    arguments = parser.parse_args()
    print(", ".join(FIELDS))
    with tempfile.TemporaryDirectory() as made:
        for include in arguments.folders:
            try:
                offsets = measure(include, not arguments.old_strings, Path(made), arguments.std)
            except subprocess.CalledProcessError:
                print(f"{include}: its headers cannot be compiled", file=sys.stderr)
                return 1
            print(f"{include}: {', '.join(map(str, offsets))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
