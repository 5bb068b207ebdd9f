// Keeps what the records before a moment leave behind for those after it: definitions that later
// records mean by their numbers, and the Python stack that each thread had, of which later records
// tell only what changed. A flight recorder puts every block through here that it lets go. Not
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

// A thread that has ended; tid 0: the whole process.
struct EndedTask {
  uint32_t pid = 0;
  uint32_t tid = 0;
  int64_t end_ns = 0;
};

// The definitions that a stretch of records refers to.
struct DefinitionUses {
  absl::flat_hash_set<DefinitionKey> keys;  // of PT_SAMPLE_FRAME: the innermost ones
  // Adds those of `records`, of the job's or of GPU agents.
  void Add(std::span<const std::byte> records);

 private:
  void AddFiles(std::span<const std::byte> record);
};

class KeptDefinitions {
 public:
  // Whether records of this kind mean anything here: blocks without them need not be learned.
  static bool Matters(uint8_t kind);

  // Learns from records, in the order in which they were recorded.
  void Learn(std::span<const std::byte> records);

  // Threads and processes that have ended in what was learned, once.
  std::vector<EndedTask> TakeEnded() { return std::exchange(ended_, {}); }
  // Lets go what processes and threads told up to a time after their end.
  void Forget(std::span<const EndedTask> tasks, int64_t late_ns);
  // Lets go what neither `uses` nor the threads' stacks refer to.
  void KeepUsed(DefinitionUses uses);

  // Records that stand for all of it, in blocks of at most `most_bytes`: to be read before what
  // follows. `is_device`: of GPU agents, or the others.
  std::vector<std::vector<std::byte>> ToBlocks(bool is_device, size_t most_bytes) const;
  // Returns about as much as it takes in memory.
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
  absl::flat_hash_map<uint32_t, Thread> threads_;              // by tid
  absl::flat_hash_map<uint32_t, DefinitionKey> told_modules_;  // by tid: the last one it told of
  std::vector<EndedTask> ended_;
  size_t bytes_ = 0;
  uint64_t last_file_ = 0;  // the highest id of a file
};

}  // namespace proftrace
