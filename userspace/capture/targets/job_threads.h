// Finds the tracer's numbers of a job's threads. Code in the job knows only their numbers in the
// job's own PID namespace.
//
// The numbers that are asked for come from memory that the job can write, so they may be any
// numbers, and each time others. Therefore NumberOf() does no more than look into a table, and
// LookForMissing() takes no more than a tenth of its caller's time in the long run.
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
  // Reads the numbers of all threads that are there, where the job has a PID namespace of its own.
  explicit JobThreads(Pid pid);

  // Returns the tracer's number of a thread. While that number is not known yet, because the job
  // has another namespace, returns a number that no thread has; Resolve() may find the right one
  // later. 0: Linux gives no thread the number `own_number`, or no job can have started so many
  // threads.
  uint32_t NumberOf(uint32_t own_number);
  // Looks for the threads whose numbers were asked for and are not known.
  void LookForMissing();
  // Returns the number that is known by now for a number that NumberOf() gave. A number that no
  // thread has stands for a thread of another namespace that had ended before it was looked for, or
  // for a thread of another process.
  uint32_t Resolve(uint32_t number) const;
  // Whether Resolve() may change numbers.
  bool needs_resolving() const;

 private:
  // Counts one more thread. Returns false where the job cannot have started so many threads in this
  // time.
  bool Admit();
  // Reads the numbers of threads. The caller holds the lock, which is released while files are
  // read. With `reads_known`, known threads are read again, because the tracer's number of an ended
  // thread may have become another thread's.
  void Look(std::unique_lock<std::mutex>* lock, bool reads_known);

  // Checks, where the job is in our own namespace, which of the missing numbers belong to threads
  // of other processes.
  void CheckMissing(std::unique_lock<std::mutex>* lock);

  const Pid pid_;
  const bool is_same_namespace_;
  mutable std::mutex mutex_;
  // The tracer's numbers, by the thread's own number; 0: not known.
  absl::flat_hash_map<uint32_t, uint32_t> numbers_;
  absl::flat_hash_map<uint32_t, uint32_t> own_numbers_;  // by the tracer's number
  absl::flat_hash_set<uint32_t> missing_;                // own numbers to be looked for
  bool has_foreign_ = false;  // whether a number was found to be another process's thread
  uint64_t admitted_ = 0;
  int64_t begin_ns_ = 0;
  int64_t last_look_ns_ = 0;
  int64_t looked_ns_ = 0;  // how long looking took, in all
};

}  // namespace proftrace
