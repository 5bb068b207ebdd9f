// Limits the cost of reading a process, or one of its files: bytes, memory and processor time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace proftrace {

// A hostile process decides how much there is to read: lists without an end, files that claim
// gigabytes, tables that overlap a thousand times. So every read is paid from a budget. Where the
// budget is used up, each further read fails like a read of memory that does not exist, so that
// readers end by themselves. The owner of the budget then asks is_used_up(), and Why() gives the
// reason for its message.
//
//   ReadBudget budget(limits);
//   const ReadBudget::Scope scope(&budget);
//   … all that this thread reads …
//
// Readers pay from the budget of their thread's innermost scope and from the budgets of all scopes
// around it. Budgets are not passed as arguments, so that none can be forgotten. Without a scope
// there is no limit. A budget is for the thread that made it, and for threads that join it (Share).
class ReadBudget {
 public:
  struct Limits {
    uint64_t bytes = UINT64_MAX;       // bytes that are read of files and of memory
    uint64_t kept_bytes = UINT64_MAX;  // bytes that are kept in our own memory at once
    int64_t cpu_ns = INT64_MAX;        // processor time of each thread
    // The limit of waiting for file systems that are programs or on other machines. When it is
    // reached, none of them is asked any more; the budget is not used up by that.
    int64_t waiting_ns = INT64_MAX;
    // Another thread sets this flag to have the reading ended. May be null.
    const std::atomic<bool>* stop = nullptr;
  };

  explicit ReadBudget(const Limits& limits);
  ReadBudget(const ReadBudget&) = delete;
  ReadBudget& operator=(const ReadBudget&) = delete;

  // Pays for a read of `bytes`, and now and then for the time until now. False: the read may not be
  // done.
  bool Pay(uint64_t bytes);
  // Takes room for `bytes` that are kept in memory. False: there is no room.
  bool Keep(uint64_t bytes);
  // Gives back room that Keep() took.
  void Release(uint64_t bytes) { kept_ -= bytes; }
  uint64_t kept_bytes() const { return kept_; }

  bool is_used_up() const { return reason_ != Reason::kNone; }
  // Whether the budget is used up. Checks the time too, in case nothing was read since it was over.
  bool IsUsedUpNow();
  // Returns the reason: "there is more than 4096 MB to be read". Empty: the budget is not used up.
  std::string Why() const;

  // Pays from all budgets of this thread.
  static bool PayAll(uint64_t bytes);
  // Whether a loop over data that was read already may go on. Costs some nanoseconds.
  static bool MayGoOn();

  // Returns how long this thread may wait for an answer, `wanted_ns` at most; 0 or less: not at
  // all.
  static int64_t MayWaitNs(int64_t wanted_ns);
  // Notes that this thread has waited for `waited_ns`.
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
  // Lets other threads that work for this one pay from its budgets. This thread makes a Share, and
  // each of the others makes a Join of it.
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
  // Pay from this budget and from those of the scopes around it. Where one of these is used up,
  // this one is used up as well.
  bool PayHereAndAround(uint64_t bytes);
  bool HasTimeHereAndAround();

  const Limits limits_;
  int64_t deadline_ns_;
  std::atomic<uint64_t> read_{0};
  std::atomic<uint64_t> kept_{0};
  std::atomic<int64_t> waited_ns_{0};
  std::atomic<Reason> reason_{Reason::kNone};
  ReadBudget* around_ = nullptr;  // the budget of the scope around
};

}  // namespace proftrace
