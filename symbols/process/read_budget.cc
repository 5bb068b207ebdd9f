#include "symbols/process/read_budget.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "userspace/base/clock.h"

namespace proftrace {
namespace {

// The cost of a read besides its bytes, for its system call.
constexpr uint64_t kReadBytes = 64;
// Reading the thread's clock is a system call too, so that it is read only after this many reads or
// turns of a loop, or after a large read.
constexpr uint32_t kBetweenLooks = 64;
constexpr uint32_t kTurnsBetweenLooks = 1024;
constexpr uint64_t kLargeReadBytes = uint64_t{64} << 10;

thread_local ReadBudget* t_budget = nullptr;
// How far this thread's clock is ahead of that of the thread that made the budgets.
thread_local int64_t t_shift_ns = 0;
thread_local uint32_t t_reads = 0;

int64_t NowNs() { return ThreadCpuNs() - t_shift_ns; }

}  // namespace

ReadBudget::ReadBudget(const Limits& limits) : limits_(limits) {
  const int64_t now_ns = NowNs();
  deadline_ns_ = limits.cpu_ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + limits.cpu_ns;
}

void ReadBudget::UseUp(Reason reason) {
  Reason none = Reason::kNone;
  reason_.compare_exchange_strong(none, reason);
}

bool ReadBudget::CheckTime() {
  if (deadline_ns_ != INT64_MAX && NowNs() > deadline_ns_) UseUp(Reason::kTime);
  return !is_used_up();
}

bool ReadBudget::Pay(uint64_t bytes) {
  if (limits_.stop != nullptr && limits_.stop->load(std::memory_order_relaxed)) {
    UseUp(Reason::kStopped);
  }
  if (is_used_up()) return false;
  const uint64_t cost = bytes > UINT64_MAX - kReadBytes ? bytes : bytes + kReadBytes;
  const uint64_t before = read_.fetch_add(cost, std::memory_order_relaxed);
  if (cost > limits_.bytes || before > limits_.bytes - cost) UseUp(Reason::kBytes);
  if (bytes >= kLargeReadBytes || t_reads % kBetweenLooks == 0) CheckTime();
  return !is_used_up();
}

bool ReadBudget::Keep(uint64_t bytes) {
  const uint64_t before = kept_.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes <= limits_.kept_bytes && before <= limits_.kept_bytes - bytes) return !is_used_up();
  kept_ -= bytes;
  UseUp(Reason::kKept);
  return false;
}

bool ReadBudget::IsUsedUpNow() {
  (void)Pay(0);
  CheckTime();
  return is_used_up();
}

std::string ReadBudget::Why() const {
  constexpr uint64_t kMegabyte = uint64_t{1} << 20;
  switch (reason_.load()) {
    case Reason::kNone:
      return "";
    case Reason::kBytes:
      return absl::StrCat("there is more than ", limits_.bytes / kMegabyte, " MB to be read");
    case Reason::kKept:
      return absl::StrCat("its tables take more than ", limits_.kept_bytes / kMegabyte, " MB");
    case Reason::kTime:
      return absl::StrCat("reading it takes more than ", limits_.cpu_ns / 1'000'000'000,
                          " s of processor time");
    case Reason::kStopped:
      return "proftrace was asked to end";
    case Reason::kAround:
      return around_ == nullptr ? "its process took too much" : around_->Why();
  }
  return "";
}

int64_t ReadBudget::MayWaitNs(int64_t wanted_ns) {
  for (const ReadBudget* budget = t_budget; budget != nullptr; budget = budget->around_) {
    wanted_ns = std::min(wanted_ns, budget->limits_.waiting_ns - budget->waited_ns_);
  }
  return wanted_ns;
}

void ReadBudget::PayWait(int64_t waited_ns) {
  for (ReadBudget* budget = t_budget; budget != nullptr; budget = budget->around_) {
    budget->waited_ns_ += waited_ns;
  }
}

bool ReadBudget::PayAll(uint64_t bytes) {
  ++t_reads;
  return t_budget == nullptr || t_budget->PayHereAndAround(bytes);
}

bool ReadBudget::PayHereAndAround(uint64_t bytes) {
  const bool may_around = around_ == nullptr || around_->PayHereAndAround(bytes);
  const bool may = Pay(bytes);
  if (may && !may_around) UseUp(Reason::kAround);
  return may && may_around;
}

bool ReadBudget::HasTimeHereAndAround() {
  const bool has_around = around_ == nullptr || around_->HasTimeHereAndAround();
  const bool has = !IsUsedUpNow();
  if (has && !has_around) UseUp(Reason::kAround);
  return has && has_around;
}

bool ReadBudget::MayGoOn() {
  thread_local uint32_t turns = 0;
  if (t_budget == nullptr) return true;
  if (++turns % kTurnsBetweenLooks != 0) return !t_budget->is_used_up();
  return t_budget->HasTimeHereAndAround();
}

ReadBudget::Scope::Scope(ReadBudget* budget) : budget_(budget) {
  budget->around_ = t_budget;
  t_budget = budget;
}

ReadBudget::Scope::~Scope() { t_budget = budget_->around_; }

ReadBudget::Share::Share() : budget_(t_budget), cpu_ns_(NowNs()) {}

ReadBudget::Join::Join(const Share& share) : before_(t_budget), shift_before_(t_shift_ns) {
  t_budget = share.budget_;
  t_shift_ns = ThreadCpuNs() - share.cpu_ns_;
}

ReadBudget::Join::~Join() {
  t_budget = before_;
  t_shift_ns = shift_before_;
}

}  // namespace proftrace
