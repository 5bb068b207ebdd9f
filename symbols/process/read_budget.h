// What reading a process, or one of its files, may cost: bytes, memory and processor time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace proftrace {

// A process decides how much there is to read of it: lists without an end, files that say that they
// have gigabytes, tables that lie over each other a thousand times. What is read of it is paid from
// a budget; where that is used up each further read fails, as one of memory that is not there does,
// so that readers end by themselves. The one who made the budget asks is_used_up() then, and names
// what is missing with Why().
//
//   ReadBudget budget(limits);
//   const ReadBudget::Scope scope(&budget);
//   … all that this thread reads …
//
// Readers pay from the budget of their thread's innermost scope and from those around it, so that
// none can be forgotten on the way to them; without a scope there is no limit. A budget is for the
// thread that made it, and for those that join (Share).
class ReadBudget {
 public:
  struct Limits {
    uint64_t bytes = UINT64_MAX;       // read, of files and of memory
    uint64_t kept_bytes = UINT64_MAX;  // in memory of ours at once
    int64_t cpu_ns = INT64_MAX;        // of each thread
    // For file systems that are programs or far away: waiting for them uses up no budget, but when
    // this is reached, none of them is asked any more.
    int64_t waiting_ns = INT64_MAX;
    // Set from outside: nothing more is to be read. May be null.
    const std::atomic<bool>* stop = nullptr;
  };

  explicit ReadBudget(const Limits& limits);
  ReadBudget(const ReadBudget&) = delete;
  ReadBudget& operator=(const ReadBudget&) = delete;

  // Pays for a read of so many bytes, and for the time until now. False: it may not be done.
  bool Pay(uint64_t bytes);
  // Takes room for what is kept of what was read. False: there is none.
  bool Keep(uint64_t bytes);
  // Gives such room back.
  void Release(uint64_t bytes) { kept_ -= bytes; }
  uint64_t kept_bytes() const { return kept_; }

  bool is_used_up() const { return reason_ != Reason::kNone; }
  // Returns true also where the time is over without anybody having read.
  bool IsUsedUpNow();
  // Returns a reason, "it has more than 4096 MB to be read". Empty: it is not used up.
  std::string Why() const;

  // Pays from all budgets of this thread.
  static bool PayAll(uint64_t bytes);
  // Whether a loop over what was read already may go on. Costs some nanoseconds.
  static bool MayGoOn();

  // Returns how much of `wanted_ns` this thread may wait for an answer; 0 or less: not at all.
  static int64_t MayWaitNs(int64_t wanted_ns);
  // Notes that this thread waited so long.
  static void PayWait(int64_t waited_ns);

  class Scope {
   public:
    explicit Scope(ReadBudget* budget);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ReadBudget* budget_;
  };

  class Join;
  // Lets threads that help this one pay from its budgets: made by it, then joined by each of them.
  class Share {
   public:
    Share();

   private:
    friend class Join;
    ReadBudget* budget_;
    int64_t cpu_ns_;
  };
  class Join {
   public:
    explicit Join(const Share& share);
    ~Join();
    Join(const Join&) = delete;
    Join& operator=(const Join&) = delete;

   private:
    ReadBudget* before_;
    int64_t shift_before_;
  };

 private:
  enum class Reason : uint8_t { kNone, kBytes, kKept, kTime, kStopped, kAround };

  void UseUp(Reason reason);
  bool CheckTime();
  // Pay from budgets of the scopes around it, too: where one is used up, so is this one.
  bool PayHereAndAround(uint64_t bytes);
  bool HasTimeHereAndAround();

  const Limits limits_;
  int64_t deadline_ns_;
  std::atomic<uint64_t> read_{0};
  std::atomic<uint64_t> kept_{0};
  std::atomic<int64_t> waited_ns_{0};
  std::atomic<Reason> reason_{Reason::kNone};
  ReadBudget* around_ = nullptr;  // of the scope around this one's
};

}  // namespace proftrace
