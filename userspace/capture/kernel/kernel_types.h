// Adapts the kernel's type information (BTF) for a libbpf that is older than the kernel. Such a
// libbpf refuses all types because of one kind that it does not know, so new kinds are replaced by
// old ones of the same length.
#pragma once

#include <bpf/btf.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace proftrace {

// Returns `btf` (a raw BTF file, of this machine's byte order) with kinds of Linux 5.15 only. Kinds
// that no program here relocates against lose their meaning: a 64-bit enum becomes a struct, a
// declaration's tag a variable, a type's tag a const. nullopt where `btf` is damaged or has a kind
// that is not known here.
std::optional<std::string> WithOldKindsOnly(std::string btf);

// Calls `load`, a skeleton's function that returns 0 or a negative errno, in such a way that libbpf
// reads only types that it understands. Returns its result.
int LoadPrograms(const std::function<int()>& load);

struct KernelTypesDeleter {
  void operator()(btf* types) const { btf__free(types); }
};

// Loads the kernel's own types in a form that this libbpf understands. Null where they cannot be
// read.
std::unique_ptr<btf, KernelTypesDeleter> LoadKernelTypes();

}  // namespace proftrace
