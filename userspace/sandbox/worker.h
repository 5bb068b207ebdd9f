// Does work on a target's files and memory in a child process without any right, the worker. The
// worker opens nothing itself: it asks the process that started it for each thing that it has to
// read.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/base/unique_fd.h"

namespace proftrace {

struct WorkerAnswer {
  std::string bytes;
  UniqueFd fd;  // may be none
};

// The worker's end of the connection to the process that started it.
class WorkerChannel {
 public:
  explicit WorkerChannel(int fd) : fd_(fd) {}
  WorkerChannel(const WorkerChannel&) = delete;
  WorkerChannel& operator=(const WorkerChannel&) = delete;

  // Asks a question and waits for its answer. May be called by all threads of the worker. Ends the
  // worker where nobody answers any more.
  WorkerAnswer Ask(std::string_view question);

 private:
  int fd_;
  std::mutex mutex_;
};

struct WorkerOrder {
  // The worker's name in ps(1), at most 15 characters; empty: the name of the process that starts
  // it.
  std::string title;
  // Completes "the process that …" in messages, for example with "reads the libraries of PID 7".
  std::string what;
  // The descriptors that stay open in the worker, beside standard input, output and error; all
  // others are closed.
  std::vector<int> keeps;
  // The limit of the worker's processor time, in seconds. The worker is ended when that time, or
  // ten times as much real time, is over.
  int64_t longest_s = 60;
  // Whether the worker lasts as long as a recording: then it has no limit of time or of questions,
  // and runs until `stop` is set or its work is done.
  bool is_lasting = false;
  // Another thread sets this flag to have the worker ended. May be null.
  const std::atomic<bool>* stop = nullptr;
};

// Runs `work` in a child process and returns its result. `answer` is called in this process, for
// the worker's questions. Fails as `work` does. Where the worker ends early, by a mistake or a
// limit, fails with kHostUnfit or kBug and a sentence; where `order.stop` was set, fails with
// kNoTarget. The child has a copy of this process's memory, so that `work` may use objects in it,
// but it must not take a lock that another thread may hold: process-wide tables belong into an
// OfThisProcess. May be called by several threads at the same time.
absl::StatusOr<std::string> RunWorker(
    const WorkerOrder& order,
    const std::function<absl::StatusOr<std::string>(WorkerChannel* channel)>& work,
    const std::function<WorkerAnswer(std::string_view question)>& answer);

// Returns the processor time of all workers that this thread has run, in nanoseconds.
int64_t WorkerCpuNs();

// Runs a worker that asks nothing.
absl::StatusOr<std::string> RunWorker(const WorkerOrder& order,
                                      const std::function<absl::StatusOr<std::string>()>& work);

}  // namespace proftrace
