// Short readings of recorded processes while they are recorded, by one worker without rights that
// lasts as long as this (userspace/sandbox/worker.h): what lies in a target may be made to do harm.
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

// A worker that crashes is replaced, and its question asked once more; a process whose question
// ends a second one is asked nothing more, and failure() says so. May be used by all threads.
class TargetReader {
 public:
  struct Question {
    Pid pid{};
    // The process's address space (CaptureMetadata::images): while it is the same, so is the
    // memory that is open. 0 = not known.
    uint32_t image = 0;
    std::string input;
  };
  // The worker's: returns what was read of the process; empty: it could not be read.
  using Reading = std::function<std::string(Pid pid, std::string_view input)>;
  // Takes what Reading has returned; empty also where nobody reads any more. On the reader's
  // thread, or on the one that asks.
  using OnRead = std::function<void(std::string_view result)>;

  // `title`: of the worker in ps(1), at most 15 characters. `does` goes on "the process that …":
  // "reads names". `reading` works on a copy of this process as it was when the worker began.
  TargetReader(std::string title, std::string does, Reading reading);
  ~TargetReader();
  TargetReader(const TargetReader&) = delete;
  TargetReader& operator=(const TargetReader&) = delete;

  // Starts the worker. The first question does so otherwise.
  void Start();
  void Ask(Question question, OnRead on_read);
  // Asks and waits. A worker that does not answer for some seconds is replaced.
  std::string AskNow(Question question);
  // Answers what was asked until now, for at most so long, and ends the worker.
  void Finish(int64_t longest_ns);
  // Returns sentences that say what ended workers before their time; empty: nothing did.
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
  // Takes note of a worker's end. False: there is none to follow it.
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
  std::atomic<bool> gives_up_ = false;  // ends the worker

  // The thread's own.
  std::optional<Task> asked_;
  std::optional<TargetAnswers> answers_;  // about the process that `asked_` is about
  std::thread thread_;
};

}  // namespace proftrace
