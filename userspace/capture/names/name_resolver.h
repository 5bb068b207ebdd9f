// Resolves the names behind the addresses in records, which are read from the process while it
// lives: classes of autograd nodes by their RTTI, Python types by their tp_name, symbols by torch's
// list of them, threads by their comm. Each address is looked up once in an address space, and
// where that fails (the process had ended) once in each of the other processes that have it. A
// worker without rights reads the names (target_words.h); the thread that observes records does not
// wait for it.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/capture/targets/target_reader.h"
#include "userspace/capture/targets/target_words.h"
#include "userspace/model/ids.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

class NameResolver {
 public:
  using AddMetadata = std::function<void(const std::function<void(MetadataWriter&)>&)>;
  // Returns nullopt where the process is not recorded.
  using SymbolListOf = std::function<std::optional<SymbolList>(Pid)>;
  // Called when the class of a vtable has been read. `is_python` is true for PyNode.
  using OnNodeClass = std::function<void(Pid, uint64_t vtable, bool is_python)>;
  // Is TargetReader::Ask() of a worker that runs ReadTargetWords().
  using Ask = std::function<void(TargetReader::Question, TargetReader::OnRead)>;

  // `image_of` returns the address space of a process, nullopt when it is not recorded. This object
  // must live until `ask` has answered all questions. `add_metadata` and `on_node_class` are called
  // on the thread that answers, too.
  NameResolver(std::function<std::optional<uint32_t>(Pid)> image_of, AddMetadata add_metadata,
               OnNodeClass on_node_class, SymbolListOf symbol_list_of, Ask ask);

  // Takes a raw record, and asks for the names that the record refers to. To be called on one
  // thread.
  void Observe(std::span<const std::byte> record);
  uint64_t read_failed() const;

 private:
  using Key = std::pair<uint32_t, uint64_t>;  // image, or PID, and address or number
  // The names that were looked up already.
  struct Names {
    absl::flat_hash_set<Key> read;    // by image
    absl::flat_hash_set<Key> failed;  // by PID
  };
  using Questions = std::vector<std::pair<TargetReader::Question, TargetReader::OnRead>>;

  // Whether a name is to be read now; if so, it counts as read from here on. The caller holds the
  // lock, also for the next two functions.
  bool Take(Names* names, Pid pid, uint32_t image, uint64_t key);
  // Notes that a name could not be read.
  void Fail(Names* names, Pid pid, uint32_t image, uint64_t key);
  void AddTypeQuestion(Pid pid, uint32_t image, uint64_t type, Questions* questions);
  void AskAll(Questions questions);

  void ObserveNamed(std::span<const std::byte> record);
  void ObserveNode(std::span<const std::byte> record);
  void ObserveExit(std::span<const std::byte> record);
  void OnClass(Pid pid, uint32_t image, uint64_t vtable, std::string_view answer);
  void OnType(Pid pid, uint32_t image, uint64_t type, std::string_view answer);
  void OnSymbol(Pid pid, uint32_t image, uint32_t symbol, std::string_view answer);

  const std::function<std::optional<uint32_t>(Pid)> image_of_;
  const AddMetadata add_metadata_;
  const OnNodeClass on_node_class_;
  const SymbolListOf symbol_list_of_;
  const Ask ask_;
  mutable std::mutex mutex_;
  Names addresses_;
  Names symbols_;
  absl::flat_hash_set<Key> python_nodes_;  // image and address
  // The Python types of nodes whose class is being read, each with the process that reported it.
  absl::flat_hash_map<Key, std::vector<std::pair<Pid, uint64_t>>> waiting_types_;
  absl::flat_hash_map<uint32_t, uint64_t> symbol_lists_;  // the list's address, by image
  uint64_t read_failed_ = 0;
};

}  // namespace proftrace
