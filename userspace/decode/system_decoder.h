// Turns records of system activity into the tables of the Timeline. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bpf/abi/system_records.h"
#include "userspace/model/chunk_store.h"
#include "userspace/model/name_limits.h"
#include "userspace/model/system_event.h"
#include "userspace/stats/ledger.h"

namespace proftrace {

class SystemDecoder {
 public:
  // The most files, and the most paths of calls, that are kept. Later ones become the group of
  // their name (GroupOfName()), or kOtherNames.
  struct Limits {
    size_t entries = kMostPaths;
    size_t text_bytes = size_t{64} << 20;
    size_t groups = kMostNameGroups;
  };

  // `spill_directory`: as TimelineBuilder's. Counts into `ledger`: names_cut; and, as
  // inputs_unread, calls whose paths could not be read.
  SystemDecoder(std::string spill_directory, Ledger* ledger)
      : SystemDecoder(std::move(spill_directory), ledger, Limits()) {}
  SystemDecoder(std::string spill_directory, Ledger* ledger, const Limits& limits)
      : spill_directory_(std::move(spill_directory)), ledger_(ledger), limits_(limits) {}

  // Takes a record of bpf/abi/system_records.h, which has at least the size that its kind needs.
  // Returns false where its contents are impossible.
  bool OnRecord(std::span<const std::byte> record);

  // Notes that the thread has ended: the call that it was in never returned.
  void OnThreadExit(Pid pid, Tid tid, int64_t time_ns);

  // Records of one thread were lost between these two times.
  struct Loss {
    int64_t after_ns = 0;
    int64_t before_ns = 0;
  };
  struct ThreadTable {
    Pid pid{};
    Tid tid{};
    std::vector<Loss> losses;  // in order of time
  };
  // The decoded events, those of each thread in the order of their ends. `SystemEvent::thread` is
  // an index into `threads`. The spans and events around them are not known yet.
  struct Tables {
    std::unique_ptr<SystemEventStore> events;  // null = none
    std::vector<ThreadTable> threads;
    std::vector<SystemFile> files;   // the first one means nothing
    std::vector<SystemPaths> paths;  // the first one means nothing
    absl::Status status;             // first failure of the store
    // How often a file was recorded, and how many calls had paths, that came when the limits were
    // reached.
    uint64_t other_files = 0;
    uint64_t other_paths = 0;
  };
  Tables TakeTables();

 private:
  struct ThreadState {
    uint32_t index = 0;
    int64_t last_end_ns = 0;
  };

  // `tail_bytes`: the size of the record's tail.
  bool OnCall(const abi::pt_system_call_record& record, size_t tail_bytes);
  bool OnOffCpu(const abi::pt_off_cpu_record& record);
  bool OnFault(const abi::pt_fault_record& record);
  bool OnRequest(const abi::pt_request_record& record);
  bool OnFile(const abi::pt_system_file_record& record);
  // Decodes the members that all records have. Returns false where the times are impossible.
  bool Begin(const abi::pt_record& head, uint64_t duration_ns, uint16_t lost, uint8_t flags,
             SystemEvent* event);
  void Add(const SystemEvent& event);
  // Marks calls as never returned that were interrupted by a signal which then ended the thread:
  // the kernel returned that they are to be restarted, but they never were.
  void EndBrokenCalls();
  SystemFileId FileOf(uint32_t id) const;
  std::string Absolute(uint32_t directory, std::string_view path) const;
  // `at`: where the ids of the paths' directories begin in the record's tail.
  SystemPaths PathsOf(const abi::pt_system_call_record& record, size_t at,
                      const SystemCallFacts& call);
  SystemPathsId InternPaths(SystemPaths paths);
  SystemPathsId AddPaths(std::string key, SystemPaths paths);
  // Returns the file that stands for `file`, for which there is no room.
  uint32_t FileInstead(const SystemFile& file);

  std::string spill_directory_;
  Ledger* ledger_;
  Limits limits_;
  size_t file_text_bytes_ = 0;
  size_t path_text_bytes_ = 0;
  Tables tables_{nullptr, {}, std::vector<SystemFile>(1), std::vector<SystemPaths>(1), {}, 0, 0};
  absl::flat_hash_map<uint64_t, ThreadState> threads_;  // by pid << 32 | tid
  // The times at which threads ended, by pid << 32 | tid. A number may be used again.
  absl::flat_hash_map<uint64_t, std::vector<int64_t>> exits_;
  absl::flat_hash_map<uint32_t, uint32_t> file_numbers_;  // by id
  // The last files that there was no room for. The BPF programs record a file again after
  // MOST_FILES_SINCE others (bpf/kernel/system_files.bpf.h), so older ones need not be kept.
  absl::flat_hash_map<uint32_t, uint32_t> late_files_;
  absl::flat_hash_map<std::string, uint32_t> file_groups_;  // by kind and name
  size_t path_groups_ = 0;
  absl::flat_hash_map<std::string, SystemPathsId> paths_ids_;
};

}  // namespace proftrace
