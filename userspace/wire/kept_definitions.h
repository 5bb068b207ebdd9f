// Keeps what later records need from earlier ones that are dropped: definitions, which later
// records refer to by number, and the last Python stack of each thread, because later records tell
// only how a stack changed. A flight recorder passes each block that it drops through here. Not
// thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "userspace/wire/told_once.h"

namespace proftrace {

// A thread that has ended. tid 0: the whole process has ended.
struct EndedTask {
  uint32_t pid = 0;
  uint32_t tid = 0;
  int64_t end_ns = 0;
};

// The definitions that a stretch of records refers to.
struct DefinitionUses {
  absl::flat_hash_set<DefinitionKey> keys;  // of PT_SAMPLE_FRAME only the innermost frames
  // Adds the definitions that `records` refer to: records of a job or of GPU agents.
  void Add(std::span<const std::byte> records);

 private:
  void AddFiles(std::span<const std::byte> record);
};

class KeptDefinitions {
 public:
  // Returns whether Learn() needs records of this kind. Blocks without such records need not be
  // learned.
  static bool Matters(uint8_t kind);

  // Learns from records, in the order in which they were recorded.
  void Learn(std::span<const std::byte> records);

  // Returns the threads and processes that ended in the learned records since the last call.
  std::vector<EndedTask> TakeEnded() { return std::exchange(ended_, {}); }
  // Drops the definitions and stacks that ended tasks recorded up to `late_ns` after their end.
  void Forget(std::span<const EndedTask> tasks, int64_t late_ns);
  // Drops definitions that neither `uses` nor the threads' stacks refer to.
  void KeepUsed(DefinitionUses uses);

  // Returns records with all kept definitions and stacks, in blocks of at most `most_bytes`, which
  // a reader needs before later records. `is_device`: those of GPU agents, or else the others.
  std::vector<std::vector<std::byte>> ToBlocks(bool is_device, size_t most_bytes) const;
  // Returns about how much memory is used.
  size_t bytes() const { return bytes_; }

 private:
  struct Definition {
    std::vector<std::byte> records;
    uint32_t pid = 0;
    int64_t told_ns = 0;
  };
  struct Frame {
    uint64_t word = 0;
    uint64_t module = 0;  // 0 = none
  };
  struct Thread {
    uint32_t pid = 0;
    int64_t time_ns = 0;
    std::vector<Frame> frames;  // outermost first
  };

  void Define(const DefinitionKey& key, const abi::pt_record& head,
              std::span<const std::byte> record);
  void GoOn(const DefinitionKey& key, std::span<const std::byte> record);
  void LearnStack(std::span<const std::byte> record);
  void Drop(const DefinitionKey& key);
  static size_t BytesOf(const Definition& definition);
  static void AppendStack(uint32_t tid, const Thread& thread, std::vector<std::byte>* records);

  absl::flat_hash_map<DefinitionKey, Definition> definitions_;
  absl::flat_hash_map<uint32_t, Thread> threads_;  // by tid
  // by tid: the last module that the thread defined
  absl::flat_hash_map<uint32_t, DefinitionKey> told_modules_;
  std::vector<EndedTask> ended_;
  size_t bytes_ = 0;
  uint64_t last_file_ = 0;  // the highest id of a file
};

}  // namespace proftrace
