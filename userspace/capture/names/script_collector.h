// Gets the names that rows of TorchScript need (Module Hierarchy), and writes them into the
// capture. Records name the code that an interpreter ran only by addresses
// (bpf/abi/script_records.h). Each pair of code and node is read once, while its process runs, and
// tried again a few times where that fails.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/abi/script_records.h"
#include "symbols/plan/script_reading.h"
#include "symbols/probe_plan.h"
#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/capture/records/capture_sink.h"
#include "userspace/capture/targets/target_reader.h"
#include "userspace/model/ids.h"
#include "userspace/model/recording.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

class ScriptCollector {
 public:
  // `sink` must outlive the collector; `reader`, of a worker that runs ReadTargetWords(), must
  // answer nothing once the collector has gone.
  ScriptCollector(CaptureSink* sink, TargetReader* reader) : sink_(sink), reader_(reader) {}
  ScriptCollector(const ScriptCollector&) = delete;
  ScriptCollector& operator=(const ScriptCollector&) = delete;

  // Has the code that the process's interpreters run recorded with the process's rows. To be called
  // before the process's first probe, and again when it runs another program. Returns the layout
  // that jumps need for that; where jumps cannot record that code, the layout's index of the state
  // is 0. Adds a reason to `gaps` where no code is recorded.
  abi::pt_script_layout Prepare(BpfPrograms* programs, Pid pid, uint32_t image,
                                const std::shared_ptr<const ProbePlan>& plan,
                                std::vector<Unsupported>* gaps);
  // Takes a PT_SCRIPT_STACK. To be called on one thread.
  void Observe(std::span<const std::byte> record);
  // Forgets a process that has ended.
  void Forget(Pid pid);
  // Returns how many pairs have no names: they could not be read, or there were too many.
  uint64_t not_read() const;

 private:
  using Place = std::pair<uint64_t, uint64_t>;  // code, node
  struct State {
    uint8_t tries = 0;
    bool is_settled = false;  // it is being asked for, is known, or is given up
  };
  struct Process {
    ScriptReading reading;
    uint32_t image = 0;
    absl::flat_hash_map<Place, State> places;
  };

  void OnAnswer(const ScriptKey& key, std::string_view answer);

  CaptureSink* sink_;
  TargetReader* reader_;
  mutable std::mutex mutex_;
  absl::flat_hash_map<uint32_t, Process> processes_;  // by pid
  uint64_t not_read_ = 0;
  // The last plan and its reading: a forked child has its parent's plan, and everything at the same
  // places.
  std::weak_ptr<const ProbePlan> last_plan_;
  absl::StatusOr<ScriptReading> last_reading_ = absl::UnknownError("");
};

inline constexpr char kScriptsFeature[] = "Module Hierarchy of TorchScript's rows";

}  // namespace proftrace
