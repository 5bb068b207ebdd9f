#include "userspace/capture/targets/target_reader.h"

#include <absl/status/status.h>

#include <chrono>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "symbols/process/cache_bytes.h"
#include "symbols/process/process_memory.h"
#include "symbols/process/read_budget.h"
#include "symbols/process/target_entries.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

// The first byte of the question for the next reading. The result of the last reading follows it.
constexpr char kNextReading = 'N';
// The most processes whose memory the worker keeps open.
constexpr size_t kMostOpenMemories = 64;
// The limits of one reading. A name takes microseconds, a model of a hundred thousand modules a
// second.
constexpr ReadBudget::Limits kLimitsOfReading{.bytes = uint64_t{4} << 30, .cpu_ns = 10'000'000'000};
constexpr int64_t kLongestAnswerNs = 5'000'000'000;
// After this many workers nothing more is read.
constexpr int kMostWorkers = 8;
// The most questions that wait. A job can make up as many as it likes.
constexpr size_t kMostQuestions = size_t{1} << 17;

// Runs in the worker: answers questions until there are no more.
absl::StatusOr<std::string> ReadTargets(WorkerChannel* channel,
                                        const TargetReader::Reading& reading) {
  AskForEntries(channel);
  std::map<Pid, uint32_t> images;  // image by process, for processes whose memory may be open
  std::string done(1, kNextReading);
  while (true) {
    const WorkerAnswer answer = channel->Ask(done);
    CacheReader in(answer.bytes);
    const Pid pid{in.Number<uint32_t>()};
    const uint32_t image = in.Number<uint32_t>();
    const std::string input = in.Text();
    if (!in.ok() || pid == Pid{}) return "";
    if (images.size() >= kMostOpenMemories && !images.contains(pid)) {
      for (const auto& [other, unused] : images) ForgetMemory(other);
      images.clear();
    }
    const auto [known, is_new] = images.try_emplace(pid, image);
    if (!is_new && (image == 0 || known->second != image)) ForgetMemory(pid);
    known->second = image;
    std::string result;
    // Another process may have this pid now, so the memory is opened anew for a second try.
    for (int tries = 0; tries < 2 && result.empty(); ++tries) {
      if (tries > 0) ForgetMemory(pid);
      ReadBudget budget(kLimitsOfReading);
      const ReadBudget::Scope scope(&budget);
      result = reading(pid, input);
    }
    done.assign(1, kNextReading);
    done += result;
  }
}

}  // namespace

TargetReader::TargetReader(std::string title, std::string does, Reading reading)
    : title_(std::move(title)), does_(std::move(does)), reading_(std::move(reading)) {}

TargetReader::~TargetReader() { Finish(0); }

void TargetReader::Start() {
  const std::lock_guard lock(mutex_);
  if (thread_.joinable() || stop_ || is_over_) return;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    failure_ = std::string(NoMoreProcesses(error.code().value()).message());
    is_over_ = true;
  }
}

void TargetReader::Ask(Question question, OnRead on_read) {
  Start();
  {
    const std::lock_guard lock(mutex_);
    if (!stop_ && !is_over_ && !left_alone_.contains(question.pid) &&
        tasks_.size() < kMostQuestions) {
      tasks_.push_back({std::move(question), std::move(on_read)});
      changed_.notify_all();
      return;
    }
  }
  on_read("");
}

std::string TargetReader::AskNow(Question question) {
  struct Waiting {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<std::string> result;
  };
  // The object lives longer than this call where no answer comes in time.
  const auto waiting = std::make_shared<Waiting>();
  Ask(std::move(question), [waiting](std::string_view result) {
    const std::lock_guard lock(waiting->mutex);
    waiting->result = std::string(result);
    waiting->changed.notify_all();
  });
  std::unique_lock lock(waiting->mutex);
  if (waiting->changed.wait_for(lock, std::chrono::nanoseconds(kLongestAnswerNs),
                                [&waiting] { return waiting->result.has_value(); })) {
    return *std::move(waiting->result);
  }
  lock.unlock();
  const std::lock_guard own_lock(mutex_);
  is_late_ = true;
  gives_up_ = true;
  return "";
}

void TargetReader::Run() {
  for (int workers = 1;; ++workers) {
    {
      std::unique_lock lock(mutex_);
      if (workers > 1) changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
    }
    WorkerOrder order;
    order.title = title_;
    order.what = does_;
    order.is_lasting = true;
    order.stop = &gives_up_;
    const absl::Status status =
        RunWorker(
            order, [this](WorkerChannel* channel) { return ReadTargets(channel, reading_); },
            [this](std::string_view question) { return Answer(question); })
            .status();
    if (!MayGoOn(status, workers)) return;
  }
}

WorkerAnswer TargetReader::Answer(std::string_view question) {
  if (question.empty() || question.front() != kNextReading) {
    return answers_ ? answers_->Answer(question) : RefusalOfEntries();
  }
  if (asked_) {
    const Task done = *std::exchange(asked_, std::nullopt);
    done.on_read(question.substr(1));
  }
  return GiveTask();
}

WorkerAnswer TargetReader::GiveTask() {
  answers_.reset();
  CacheWriter out;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
  if (!tasks_.empty() && !gives_up_) {
    asked_ = std::move(tasks_.front());
    tasks_.pop_front();
    const Question& question = asked_->question;
    answers_.emplace(question.pid, nullptr);
    out.Number(Raw(question.pid));
    out.Number(question.image);
    out.Text(question.input);
  } else {
    out.Number(uint32_t{0});
  }
  return WorkerAnswer{out.Take(), UniqueFd()};
}

bool TargetReader::MayGoOn(const absl::Status& status, int workers) {
  std::deque<Task> dropped;
  bool goes_on = false;
  {
    const std::lock_guard lock(mutex_);
    const bool was_ended = stop_ && gives_up_;
    if (std::optional<Task> task = std::exchange(asked_, std::nullopt)) {
      if (task->was_tried || is_late_) {
        left_alone_.insert(task->question.pid);
        dropped.push_back(*std::move(task));
      } else {
        task->was_tried = true;
        tasks_.push_front(*std::move(task));
      }
    }
    goes_on = !status.ok() && !was_ended && workers < kMostWorkers && !(stop_ && tasks_.empty());
    if (!status.ok() && !was_ended) NoteFailure(status, workers >= kMostWorkers);
    if (!goes_on) {
      is_over_ = true;
      for (Task& task : tasks_) dropped.push_back(std::move(task));
      tasks_.clear();
    }
    if (!stop_) gives_up_ = false;
    is_late_ = false;
  }
  for (const Task& task : dropped) task.on_read("");
  changed_.notify_all();
  return goes_on;
}

// The caller holds the lock.
void TargetReader::NoteFailure(const absl::Status& status, bool is_last) {
  std::string why = is_late_ ? "the process that " + does_ + " had not answered for " +
                                   std::to_string(kLongestAnswerNs / 1'000'000'000) + " s"
                             : std::string(status.message());
  // The first failure says enough.
  if (failure_.empty()) failure_ = std::move(why);
  if (is_last) failure_ += "; so did others after it, and nothing more was read";
}

void TargetReader::Finish(int64_t longest_ns) {
  {
    std::unique_lock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
    if (thread_.joinable()) {
      changed_.wait_for(lock, std::chrono::nanoseconds(longest_ns), [this] { return is_over_; });
    }
    gives_up_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

std::string TargetReader::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace proftrace
