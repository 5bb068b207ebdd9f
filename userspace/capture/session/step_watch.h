// Counts the steps of the recorded jobs while they run, from the stream of records, for the live
// line and for --steps and --schedule, which wait for steps. Like aggregate/steps on the finished
// recording, it takes the calls that nothing but annotations encloses, and finds steps in them by
// the same code. Memory is bounded by the number of threads and of steps. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/node_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bpf/abi/records.h"
#include "userspace/model/label.h"
#include "userspace/model/recording.h"
#include "userspace/steps/step_finder.h"

namespace proftrace {

class StepWatch {
 public:
  // Returns the label of a site of a process's probe plan; nullopt when it is not known.
  using SiteLabel = std::function<std::optional<Label>(Pid pid, uint16_t site)>;

  // `start_ns` is the time from which records are complete. `most_steps` is about the number of
  // last steps of each thread that are kept; a thread that has ended is then forgotten. 0: all
  // steps are kept, and of the threads that have ended, those of the best one.
  StepWatch(SiteLabel site_label, int64_t start_ns, size_t most_steps = 0)
      : site_label_(std::move(site_label)), start_ns_(start_ns), most_steps_(most_steps) {}

  // Takes any record, in the order of the ring.
  void Observe(std::span<const std::byte> record);
  // Ends the recording at `end_ns`; later records are not part of it. Find() is to be called when
  // all records from before `end_ns` have been observed.
  void EndAt(int64_t end_ns) { end_ns_ = end_ns; }

  // Returns the steps of the thread with the best evidence; nullopt when there is none.
  std::optional<RecordedSteps> Find();
  // Whether the first `count` whole steps are certain: found by good evidence, and seen often
  // enough that a longer round of optimizer steps would have shown.
  bool HasSurely(uint64_t count);
  size_t kept_threads() const { return threads_.size(); }

 private:
  struct OpenAnnotation {
    uint64_t handle = 0;  // 0: not known yet
    uint64_t item = 0;    // as the finder numbers them
  };
  // The items of one thread: calls that nothing encloses, and annotations, which may enclose items.
  struct ThreadState {
    ThreadState(int64_t start_ns, size_t most_steps);
    StepFinder finder;
    uint64_t markers = 0;  // items by which steps are recognised
    uint64_t items = 0;
    bool is_open = false;  // the last item is a call that still runs
    bool last_begin_was_item = false;
    uint16_t site = 0;  // of the open call
    uint32_t sp = 0;
    uint32_t nested_same = 0;  // open calls of the same site within it
    bool in_leaf = false;      // within an annotation that is one item, with all calls in it
    uint64_t leaf_handle = 0;  // 0: not known yet
    std::vector<OpenAnnotation> annotations;  // that enclose items, the innermost last
  };

  ThreadState& StateOf(const abi::pt_record& head);
  ThreadState* Best();
  void OnBegin(const abi::pt_record& head, uint64_t what, ThreadState& thread);
  void OnEnd(const abi::pt_record& head, ThreadState& thread);
  void OnAnnotationBegin(std::span<const std::byte> record, ThreadState& thread);
  void OnAnnotationHandle(uint64_t handle, ThreadState& thread);
  void OnAnnotationEnd(const abi::pt_record& head, uint64_t handle, ThreadState& thread);
  void Forget(std::span<const std::byte> exit);
  void CloseCall(ThreadState& thread, int64_t time_ns);
  void AddItem(ThreadState& thread, const StepItem& item);
  // Returns the class of a site; nullopt for one that PyTorch makes no row for.
  std::optional<ItemClass> SiteClass(Pid pid, uint16_t site);
  uint32_t Symbol(const std::string& key);

  SiteLabel site_label_;
  int64_t start_ns_;
  size_t most_steps_;
  // The time of the latest record. It is taken as the present time, so that records that are still
  // to come do not look like a pause.
  int64_t now_ns_ = 0;
  std::optional<int64_t> end_ns_;
  absl::node_hash_map<uint64_t, ThreadState> threads_;  // by pid and tid
  uint64_t last_key_ = 0;
  ThreadState* last_ = nullptr;
  absl::flat_hash_map<uint64_t, std::optional<ItemClass>> site_classes_;  // by pid and site
  absl::flat_hash_map<std::string, uint32_t> symbols_;
  // Key of the best thread among those that have ended, which is kept.
  std::optional<uint64_t> ended_best_;
  std::optional<int64_t> reached_ns_;  // when HasSurely()'s count was first reached
};

}  // namespace proftrace
