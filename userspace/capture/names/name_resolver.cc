#include "userspace/capture/names/name_resolver.h"

#include <algorithm>
#include <cstring>

#include "bpf/abi/records.h"
#include "userspace/model/name_limits.h"

namespace proftrace {
namespace {

constexpr std::string_view kPythonNodeClass = "torch::autograd::PyNode";
// How many Python types may wait for one class that is being read.
constexpr size_t kMostWaitingTypes = 4096;
// The longest names of torch's classes, demangled, have some thousand characters.
constexpr size_t kLongestName = size_t{1} << 16;

// Returns the name in an answer; empty where the answer is too long, because a worker may be made
// to lie.
std::string NameIn(std::string_view answer) {
  return answer.size() <= kLongestName ? std::string(answer) : std::string();
}

}  // namespace

NameResolver::NameResolver(std::function<std::optional<uint32_t>(Pid)> image_of,
                           AddMetadata add_metadata, OnNodeClass on_node_class,
                           SymbolListOf symbol_list_of, Ask ask)
    : image_of_(std::move(image_of)),
      add_metadata_(std::move(add_metadata)),
      on_node_class_(std::move(on_node_class)),
      symbol_list_of_(std::move(symbol_list_of)),
      ask_(std::move(ask)) {}

void NameResolver::Observe(std::span<const std::byte> record) {
  abi::pt_record head;
  std::memcpy(&head, record.data(), sizeof(head));
  if (head.kind == abi::PT_NODE_BEGIN) ObserveNode(record);
  if (head.kind == abi::PT_NAMED_BEGIN) ObserveNamed(record);
  if (head.kind == abi::PT_THREAD_EXIT) ObserveExit(record);
}

uint64_t NameResolver::read_failed() const {
  const std::lock_guard lock(mutex_);
  return read_failed_;
}

bool NameResolver::Take(Names* names, Pid pid, uint32_t image, uint64_t key) {
  const Key known{image, key};
  if (names->read.contains(known) || names->failed.contains({Raw(pid), key})) return false;
  if (names->read.size() + names->failed.size() >= kMostNames) {
    ++read_failed_;
    return false;
  }
  return names->read.insert(known).second;
}

void NameResolver::Fail(Names* names, Pid pid, uint32_t image, uint64_t key) {
  ++read_failed_;
  names->read.erase({image, key});
  names->failed.insert({Raw(pid), key});
}

// The caller must hold no lock, because an answer may come at once.
void NameResolver::AskAll(Questions questions) {
  for (auto& [question, on_read] : questions) ask_(std::move(question), std::move(on_read));
}

void NameResolver::ObserveNode(std::span<const std::byte> record) {
  abi::pt_node_record node{};
  std::memcpy(&node, record.data(), std::min(record.size(), sizeof(node)));
  const Pid pid{node.head.pid};
  const std::optional<uint32_t> image = image_of_(pid);
  if (!image.has_value()) return;
  const Key vtable_key(*image, node.vtable);
  Questions questions;
  {
    const std::lock_guard lock(mutex_);
    if (Take(&addresses_, pid, *image, node.vtable)) {
      waiting_types_[vtable_key];
      questions.emplace_back(TargetReader::Question{pid, *image, AskClassName(node.vtable)},
                             [this, pid, image = *image, vtable = node.vtable](
                                 std::string_view name) { OnClass(pid, image, vtable, name); });
    }
    // Once the kernel's programs know the vtable, records come with the type's name. The first
    // records come without it.
    if (node.type_name[0] == '\0') {
      const auto waiting = waiting_types_.find(vtable_key);
      if (waiting != waiting_types_.end()) {
        const std::pair<Pid, uint64_t> type(pid, node.python_type);
        auto& types = waiting->second;
        if (types.size() < kMostWaitingTypes &&
            std::find(types.begin(), types.end(), type) == types.end()) {
          types.push_back(type);
        }
      } else if (python_nodes_.contains(vtable_key)) {
        AddTypeQuestion(pid, *image, node.python_type, &questions);
      }
    }
  }
  AskAll(std::move(questions));
}

void NameResolver::OnClass(Pid pid, uint32_t image, uint64_t vtable, std::string_view answer) {
  const std::string name = NameIn(answer);
  const bool is_python = name == kPythonNodeClass;
  if (!name.empty()) {
    add_metadata_([&](MetadataWriter& writer) { writer.AddNodeName(image, vtable, name); });
    on_node_class_(pid, vtable, is_python);
  }
  Questions questions;
  {
    const std::lock_guard lock(mutex_);
    const auto waiting = waiting_types_.extract(Key(image, vtable));
    if (name.empty()) Fail(&addresses_, pid, image, vtable);
    if (is_python) {
      python_nodes_.insert({image, vtable});
      if (!waiting.empty()) {
        for (const auto& [other, type] : waiting.mapped()) {
          AddTypeQuestion(other, image, type, &questions);
        }
      }
    }
  }
  AskAll(std::move(questions));
}

void NameResolver::AddTypeQuestion(Pid pid, uint32_t image, uint64_t type, Questions* questions) {
  if (!Take(&addresses_, pid, image, type)) return;
  questions->emplace_back(
      TargetReader::Question{pid, image, AskPythonTypeName(type)},
      [this, pid, image, type](std::string_view name) { OnType(pid, image, type, name); });
}

void NameResolver::OnType(Pid pid, uint32_t image, uint64_t type, std::string_view answer) {
  const std::string name = NameIn(answer);
  if (name.empty()) {
    const std::lock_guard lock(mutex_);
    return Fail(&addresses_, pid, image, type);
  }
  add_metadata_([&](MetadataWriter& writer) { writer.AddPythonTypeName(image, type, name); });
}

void NameResolver::ObserveNamed(std::span<const std::byte> record) {
  abi::pt_pointer_record named{};
  std::memcpy(&named, record.data(), std::min(record.size(), sizeof(named)));
  const auto symbol = static_cast<uint32_t>(named.value);
  const Pid pid{named.head.pid};
  const std::optional<uint32_t> image = image_of_(pid);
  if (symbol == 0 || !image.has_value()) return;
  Questions questions;
  {
    const std::lock_guard lock(mutex_);
    if (!Take(&symbols_, pid, *image, symbol)) return;
  }
  std::optional<SymbolList> list = symbol_list_of_(pid);
  {
    const std::lock_guard lock(mutex_);
    if (!list.has_value()) return Fail(&symbols_, pid, *image, symbol);
    const auto known = symbol_lists_.find(*image);
    if (known != symbol_lists_.end()) list->place = known->second;
  }
  questions.emplace_back(TargetReader::Question{pid, *image, AskSymbol(*list, symbol)},
                         [this, pid, image = *image, symbol](std::string_view answer) {
                           OnSymbol(pid, image, symbol, answer);
                         });
  AskAll(std::move(questions));
}

void NameResolver::OnSymbol(Pid pid, uint32_t image, uint32_t symbol, std::string_view answer) {
  const std::optional<SymbolText> text = SymbolOf(NameIn(answer));
  if (text.has_value()) {
    add_metadata_([&](MetadataWriter& writer) { writer.AddSymbolName(image, symbol, text->name); });
  }
  const std::lock_guard lock(mutex_);
  if (!text.has_value()) return Fail(&symbols_, pid, image, symbol);
  symbol_lists_.try_emplace(image, text->place);
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
  const std::lock_guard lock(mutex_);
  for (Names* names : {&addresses_, &symbols_}) {
    absl::erase_if(names->failed,
                   [&exit](const auto& name) { return name.first == exit.head.pid; });
  }
}

}  // namespace proftrace
