#include "userspace/capture/name_resolver.h"

#include <algorithm>
#include <cstring>

#include "bpf/abi/records.h"
#include "userspace/base/demangle.h"

namespace proftrace {
namespace {

constexpr size_t kLongestName = 1024;
constexpr char kPythonNodeClass[] = "torch::autograd::PyNode";
// Offset of tp_name in PyTypeObject: PyVarObject is three words in every CPython with a GIL.
constexpr uint64_t kTypeNameOffset = 24;

// A C string of at most kLongestName characters. Read in pieces: the string may lie at the end of a
// mapping.
std::optional<std::string> ReadText(const TargetMemory& memory, uint64_t address) {
  std::string text;
  while (text.size() < kLongestName) {
    char piece[64];
    // Up to the next multiple of the piece: within a page, which is all there or not.
    const size_t bytes = sizeof(piece) - (address + text.size()) % sizeof(piece);
    if (!memory.Read(address + text.size(), piece, bytes)) return std::nullopt;
    const char* end = static_cast<const char*>(std::memchr(piece, '\0', bytes));
    text.append(piece, end == nullptr ? bytes : static_cast<size_t>(end - piece));
    if (end != nullptr) return text;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> ReadClassName(const TargetMemory& memory, uint64_t vtable) {
  const std::optional<uint64_t> typeinfo = memory.ReadWord(vtable - 8);
  if (!typeinfo.has_value()) return std::nullopt;
  const std::optional<uint64_t> name_address = memory.ReadWord(*typeinfo + 8);
  if (!name_address.has_value()) return std::nullopt;
  std::optional<std::string> mangled = ReadText(memory, *name_address);
  if (!mangled.has_value() || mangled->empty()) return std::nullopt;
  // A star marks names that are only compared by address (anonymous namespaces).
  if (mangled->front() == '*') mangled->erase(0, 1);
  return Demangle(*mangled).value_or(*mangled);
}

std::optional<std::string> ReadPythonTypeName(const TargetMemory& memory, uint64_t type) {
  const std::optional<uint64_t> name_address = memory.ReadWord(type + kTypeNameOffset);
  if (!name_address.has_value()) return std::nullopt;
  return ReadText(memory, *name_address);
}

NameResolver::NameResolver(std::function<std::optional<uint32_t>(Pid)> image_of,
                           AddMetadata add_metadata, OnNodeClass on_node_class,
                           SymbolName symbol_name)
    : image_of_(std::move(image_of)),
      add_metadata_(std::move(add_metadata)),
      on_node_class_(std::move(on_node_class)),
      symbol_name_(std::move(symbol_name)) {}

void NameResolver::Observe(std::span<const std::byte> record) {
  abi::pt_record head;
  std::memcpy(&head, record.data(), sizeof(head));
  if (head.kind == abi::PT_NODE_BEGIN) ObserveNode(record);
  if (head.kind == abi::PT_NAMED_BEGIN) ObserveNamed(record);
  if (head.kind == abi::PT_THREAD_EXIT) ObserveExit(record);
}

bool NameResolver::Take(Names* names, Pid pid, uint32_t image, uint64_t key) {
  return !names->failed.contains({Raw(pid), key}) && names->read.insert({image, key}).second;
}

void NameResolver::Fail(Names* names, Pid pid, uint32_t image, uint64_t key) {
  ++read_failed_;
  names->read.erase({image, key});
  names->failed.insert({Raw(pid), key});
}

void NameResolver::ObserveNode(std::span<const std::byte> record) {
  abi::pt_node_record node{};
  std::memcpy(&node, record.data(), std::min(record.size(), sizeof(node)));
  const Pid pid{node.head.pid};
  const std::optional<uint32_t> image = image_of_(pid);
  if (!image.has_value()) return;
  const ProcessMemory memory(pid);
  const std::pair<uint32_t, uint64_t> vtable_key(*image, node.vtable);
  if (Take(&addresses_, pid, *image, node.vtable)) {
    const std::optional<std::string> name = ReadClassName(memory, node.vtable);
    if (!name.has_value()) {
      Fail(&addresses_, pid, *image, node.vtable);
    } else {
      add_metadata_(
          [&](MetadataWriter& writer) { writer.AddNodeName(*image, node.vtable, *name); });
      const bool is_python = *name == kPythonNodeClass;
      if (is_python) python_nodes_.insert(vtable_key);
      on_node_class_(pid, node.vtable, is_python);
    }
  }
  // The kernel side gives the type's name with the record once it knows the vtable; the first ones
  // come without.
  if (node.type_name[0] != '\0' || !python_nodes_.contains(vtable_key)) return;
  ObservePythonType(pid, *image, node.python_type);
}

void NameResolver::ObserveNamed(std::span<const std::byte> record) {
  abi::pt_pointer_record named{};
  std::memcpy(&named, record.data(), std::min(record.size(), sizeof(named)));
  const auto symbol = static_cast<uint32_t>(named.value);
  const Pid pid{named.head.pid};
  const std::optional<uint32_t> image = image_of_(pid);
  if (symbol == 0 || !image.has_value() || !Take(&symbols_, pid, *image, symbol)) return;
  const std::optional<std::string> name = symbol_name_(pid, symbol);
  if (!name.has_value()) return Fail(&symbols_, pid, *image, symbol);
  add_metadata_([&](MetadataWriter& writer) { writer.AddSymbolName(*image, symbol, *name); });
}

void NameResolver::ObservePythonType(Pid pid, uint32_t image, uint64_t type) {
  if (!Take(&addresses_, pid, image, type)) return;
  const std::optional<std::string> name = ReadPythonTypeName(ProcessMemory(pid), type);
  if (!name.has_value()) return Fail(&addresses_, pid, image, type);
  add_metadata_([&](MetadataWriter& writer) { writer.AddPythonTypeName(image, type, *name); });
}

void NameResolver::ObserveExit(std::span<const std::byte> record) {
  abi::pt_exit_record exit{};
  std::memcpy(&exit, record.data(), std::min(record.size(), sizeof(exit)));
  ThreadEntry thread;
  thread.pid = Pid{exit.head.pid};
  thread.tid = Tid{exit.head.tid};
  thread.name.assign(exit.comm, strnlen(exit.comm, sizeof(exit.comm)));
  add_metadata_([&](MetadataWriter& writer) { writer.AddThread(thread); });
  if (exit.group_dead == 0) return;
  for (Names* names : {&addresses_, &symbols_}) {
    absl::erase_if(names->failed,
                   [&exit](const auto& name) { return name.first == exit.head.pid; });
  }
}

}  // namespace proftrace
