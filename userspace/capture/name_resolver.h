// Names behind the addresses in records, read from the process while it lives: classes of autograd
// nodes by their RTTI, Python types by their tp_name, symbols by torch's list of them, threads by
// their comm. Each address is looked up once in an address space, and where that fails (the process
// had ended) once in each of the other processes that have it.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "symbols/process/process_memory.h"
#include "userspace/model/ids.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

// Returns the class of a C++ object by its vtable, demangled: "torch::autograd::AccumulateGrad".
// `vtable` as objects point to it: the word before it is the typeinfo, whose second word is the
// mangled name (Itanium C++ ABI 2.9.5).
std::optional<std::string> ReadClassName(const TargetMemory& memory, uint64_t vtable);

// Reads PyTypeObject::tp_name: the word after ob_refcnt, ob_type and ob_size.
std::optional<std::string> ReadPythonTypeName(const TargetMemory& memory, uint64_t type);

class NameResolver {
 public:
  using AddMetadata = std::function<void(const std::function<void(MetadataWriter&)>&)>;
  // The text of a c10::Symbol in a process.
  using SymbolName = std::function<std::optional<std::string>(Pid, uint32_t symbol)>;
  // The class of a vtable has been read; `is_python`: it is PyNode.
  using OnNodeClass = std::function<void(Pid, uint64_t vtable, bool is_python)>;

  // `image_of`: the address space of a process, nullopt when it is not recorded.
  NameResolver(std::function<std::optional<uint32_t>(Pid)> image_of, AddMetadata add_metadata,
               OnNodeClass on_node_class, SymbolName symbol_name);

  // Looks at a raw record of a kind that refers to names.
  void Observe(std::span<const std::byte> record);
  uint64_t read_failed() const { return read_failed_; }

 private:
  // The names that were looked up already.
  struct Names {
    absl::flat_hash_set<std::pair<uint32_t, uint64_t>> read;    // image and address or number
    absl::flat_hash_set<std::pair<uint32_t, uint64_t>> failed;  // PID and address or number
  };

  // Whether a name is to be read now; then it counts as read.
  static bool Take(Names* names, Pid pid, uint32_t image, uint64_t key);
  // Notes that a name could not be read.
  void Fail(Names* names, Pid pid, uint32_t image, uint64_t key);
  void ObservePythonType(Pid pid, uint32_t image, uint64_t type);
  void ObserveNamed(std::span<const std::byte> record);
  void ObserveNode(std::span<const std::byte> record);
  void ObserveExit(std::span<const std::byte> record);

  std::function<std::optional<uint32_t>(Pid)> image_of_;
  AddMetadata add_metadata_;
  OnNodeClass on_node_class_;
  SymbolName symbol_name_;
  Names addresses_;
  Names symbols_;
  absl::flat_hash_set<std::pair<uint32_t, uint64_t>> python_nodes_;  // image and address
  uint64_t read_failed_ = 0;
};

}  // namespace proftrace
