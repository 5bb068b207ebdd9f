// The tracer's numbers of a job's threads. Code in the job knows their numbers in the job's own PID
// namespace alone.
//
// What is asked for comes out of memory that the job can write: any number, each time another one.
// So NumberOf() does no more than look into a table, and LookForMissing() takes no more than a
// tenth of its caller's time in the long run.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <mutex>

#include "userspace/model/ids.h"

namespace proftrace {

// May be used from several threads.
class JobThreads {
 public:
  // Reads the numbers of all threads that are there.
  explicit JobThreads(Pid pid);

  // Returns the tracer's number of a thread. While it is not known yet, in another namespace, that
  // is a number that no thread has, which Resolve() may change later. 0: Linux gives no thread
  // `own_number`, or no job can have started so many.
  uint32_t NumberOf(uint32_t own_number);
  // Looks for the threads whose numbers were asked for and are not known.
  void LookForMissing();
  // Returns what is known by now of a number that NumberOf() gave. A number that no thread has
  // stands for a thread of another namespace that had ended before it was looked for, and for one
  // of another process.
  uint32_t Resolve(uint32_t number) const;
  // Whether Resolve() may change numbers.
  bool needs_resolving() const;

 private:
  // Whether one more thread may have come since the begin.
  bool Admit();
  // Reads the numbers of threads. The caller holds the lock, which is open while files are read.
  // `reads_known`: known threads are read again whose number of ours was another thread's before.
  void Look(std::unique_lock<std::mutex>* lock, bool reads_known);

  // In our own namespace: checks which of the missing numbers belong to threads of other processes.
  void CheckMissing(std::unique_lock<std::mutex>* lock);

  const Pid pid_;
  const bool is_same_namespace_;
  mutable std::mutex mutex_;
  // By the thread's own number; 0 = not known.
  absl::flat_hash_map<uint32_t, uint32_t> numbers_;
  absl::flat_hash_map<uint32_t, uint32_t> own_numbers_;  // by ours
  absl::flat_hash_set<uint32_t> missing_;                // own numbers to be looked for
  bool has_foreign_ = false;                             // numbers of other processes' threads
  uint64_t admitted_ = 0;
  int64_t begin_ns_ = 0;
  int64_t last_look_ns_ = 0;
  int64_t looked_ns_ = 0;  // how long, in all
};

}  // namespace proftrace
