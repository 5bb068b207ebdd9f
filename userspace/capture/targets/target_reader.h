// Makes short readings of recorded processes while they are recorded. One worker without rights,
// which lasts as long as this object (userspace/sandbox/worker.h), does the reading, because a
// target's memory may be made to do harm.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "symbols/plan/target_answers.h"
#include "userspace/model/ids.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

// A worker that crashes is replaced, and its question asked once more. Where the same question ends
// a second worker, nothing more is asked about that process, and failure() says so. May be used by
// all threads.
class TargetReader {
 public:
  struct Question {
    Pid pid{};
    // The process's address space (CaptureMetadata::images): as long as this number stays the same,
    // the process's memory stays open for the next questions. 0: not known.
    uint32_t image = 0;
    std::string input;
  };
  // Runs in the worker. Returns what was read of the process; empty where it could not be read.
  using Reading = std::function<std::string(Pid pid, std::string_view input)>;
  // Takes the result of Reading; empty also where no worker is left to read. Called on the reader's
  // thread, or on the thread that asks.
  using OnRead = std::function<void(std::string_view result)>;

  // `title` is the worker's name in ps(1), at most 15 characters. `does` completes "the process
  // that …", for example "reads names". `reading` works on a copy of this process as it was when
  // the worker began.
  TargetReader(std::string title, std::string does, Reading reading);
  ~TargetReader();
  TargetReader(const TargetReader&) = delete;
  TargetReader& operator=(const TargetReader&) = delete;

  // Starts the worker, which the first question would start otherwise.
  void Start();
  void Ask(Question question, OnRead on_read);
  // Asks and waits. A worker that does not answer for some seconds is replaced.
  std::string AskNow(Question question);
  // Answers the questions that were asked until now, for at most `longest_ns`, and ends the worker.
  void Finish(int64_t longest_ns);
  // Returns sentences that say why workers ended before their time; empty where none did.
  std::string failure() const;

 private:
  struct Task {
    Question question;
    OnRead on_read;
    bool was_tried = false;
  };

  void Run();
  WorkerAnswer Answer(std::string_view question);
  WorkerAnswer GiveTask();
  // Takes note of a worker's end. Returns false where no other worker is to follow.
  bool MayGoOn(const absl::Status& status, int workers);
  void NoteFailure(const absl::Status& status, bool is_last);

  const std::string title_;
  const std::string does_;
  const Reading reading_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::set<Pid> left_alone_;
  std::string failure_;
  bool stop_ = false;
  bool is_over_ = false;                // no worker answers any more
  bool is_late_ = false;                // the worker has not answered for too long
  std::atomic<bool> gives_up_ = false;  // true ends the worker

  // The next members are for the thread alone.
  std::optional<Task> asked_;
  std::optional<TargetAnswers> answers_;  // for the process of `asked_`
  std::thread thread_;
};

}  // namespace proftrace
