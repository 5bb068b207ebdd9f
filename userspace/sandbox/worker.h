// Work on what a target has made (its files, its memory) in a process of its own without any right:
// it opens nothing, and asks the process that started it for each thing that it has to read.
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

// The worker's side.
class WorkerChannel {
 public:
  explicit WorkerChannel(int fd) : fd_(fd) {}
  WorkerChannel(const WorkerChannel&) = delete;
  WorkerChannel& operator=(const WorkerChannel&) = delete;

  // Waits for the answer. May be called by all threads of the worker. Where nobody answers any more
  // the worker ends.
  WorkerAnswer Ask(std::string_view question);

 private:
  int fd_;
  std::mutex mutex_;
};

struct WorkerOrder {
  // Its name in ps(1), at most 15 characters; empty: that of the process that starts it.
  std::string title;
  // Goes on "the process that …": "reads the libraries of PID 7".
  std::string what;
  // Descriptors that stay open in it; others do not.
  std::vector<int> keeps;
  // Its processor time. The worker is ended when that is over, or ten times as much real time.
  int64_t longest_s = 60;
  // It is ended by `stop` and by its work alone, and may ask as often as it likes.
  bool is_lasting = false;
  // Set from outside: it is ended. May be null.
  const std::atomic<bool>* stop = nullptr;
};

// Runs `work` in a child process and returns what it has returned; `answer` is called here, for its
// questions. Where it ends early, by a mistake or a limit, the status says so in a sentence
// (kHostUnfit, or kBug); where it was stopped it is kNoTarget. The child has a copy of this
// process's memory, so that `work` may use what is there, but no lock that another thread may hold.
absl::StatusOr<std::string> RunWorker(
    const WorkerOrder& order,
    const std::function<absl::StatusOr<std::string>(WorkerChannel* channel)>& work,
    const std::function<WorkerAnswer(std::string_view question)>& answer);

// Returns the processor time of the workers that this thread has waited for, since it began.
int64_t WorkerCpuNs();

// Runs a worker that asks nothing.
absl::StatusOr<std::string> RunWorker(const WorkerOrder& order,
                                      const std::function<absl::StatusOr<std::string>()>& work);

}  // namespace proftrace
