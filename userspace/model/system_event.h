// What the kernel did for a thread, or with it (--activities syscalls,io,sched,faults): system
// calls, time off the CPU, page faults, and requests that the kernel worked on by itself. Such
// events lie in the spans of their thread and in each other, but never count as children of spans,
// so that self times are the same as torch's.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/model/chunk_store.h"
#include "userspace/model/ids.h"
#include "userspace/model/span.h"

namespace proftrace {

enum class SystemKind : uint8_t {
  kCall = 0,     // a system call
  kOffCpu = 1,   // the thread had no CPU
  kFault = 2,    // a page fault
  kRequest = 3,  // I/O that was asked for through io_uring; lies in nothing
};

// Why a thread had no CPU.
enum class WaitReason : uint8_t {
  kPreempted = 0,  // it could go on, but another thread got the CPU, or it gave the CPU away
  kLock = 1,       // for a lock that another thread holds
  kIo = 2,         // a file, a pipe, a socket
  kPoll = 3,       // for any of several files
  kSleep = 4,      // until a time
  kFault = 5,      // in a page fault
  kChild = 6,      // for another process to change
  kSignal = 7,     // for a signal
  kOther = 8,
  kNew = 9,  // it was created, and had not run
  // The thread waited until another thread did anything but give back a lock: work in a queue, a
  // condition variable, a semaphore, a message, a thread's end. Idle threads of a pool wait for
  // this reason.
  kEvent = 10,
  kGil = 11,      // for the lock of Python's interpreter; older captures have kLock there
  kStopped = 12,  // a signal (SIGSTOP) or a debugger kept it from going on
};
inline constexpr size_t kWaitReasons = 13;

enum class FaultArea : uint8_t {
  kUnknown = 0,
  kHeap = 1,
  kStack = 2,
  kFile = 3,
  kAnonymous = 4,
};

enum class SystemAbi : uint8_t {
  kX86_64 = 0,
  kI386 = 1,
  kX32 = 2,
};

// Indices into the Timeline's tables; 0 = none.
enum class SystemFileId : uint32_t {};
enum class SystemPathsId : uint32_t {};
inline constexpr SystemFileId kNoSystemFile{0};
inline constexpr SystemPathsId kNoSystemPaths{0};
constexpr uint32_t Raw(SystemFileId id) { return static_cast<uint32_t>(id); }
constexpr uint32_t Raw(SystemPathsId id) { return static_cast<uint32_t>(id); }

// The facts of a kCall. `arguments` are as the thread passed them.
struct SystemCallFacts {
  std::array<uint64_t, 6> arguments;
  // -4095 to -1: an error, also one that programs do not see; meaningless where the event is
  // truncated
  int64_t result;
  int64_t time_ns = -1;  // a timeout or deadline that an argument points to; -1 = none
  SystemPathsId paths;   // what its arguments point to
  uint16_t number;
  SystemAbi abi;
  uint8_t argument_count;
};

// The facts of a kOffCpu. The thread was blocked in the duration less `run_queue_ns`.
struct OffCpuFacts {
  int64_t run_queue_ns;  // the last part, in which it could run and waited for a CPU
  Pid waker_pid;         // 0 = it was not woken, or by no process (an interrupt)
  Tid waker_tid;
  uint32_t wake_up_ns;   // from the waker's deed until the thread could run; 0 = not known
  uint32_t waker_frame;  // the waker's innermost frame in Timeline::sample_frames(); 0 = not known
  int32_t call;          // the system call that it was in; -1 = none
  uint16_t from_cpu;
  uint16_t to_cpu;
  WaitReason reason;
  SystemAbi abi;  // of `call`
  bool voluntary;
  bool uninterruptible;  // no signal would have woken it
  bool disk;             // it waited for a disk
};

// The facts of a kFault.
struct FaultFacts {
  uint64_t address;
  uint64_t offset;  // in `file`, bytes
  FaultArea area;
  bool major;  // it read from a disk
  bool write;
  bool in_kernel;  // a system call read or wrote the address
};

// The facts of a kRequest.
struct RequestFacts {
  int64_t result;
  uint64_t offset;  // bytes; ~0 = at the file's position, or not known
  uint64_t bytes;   // that were asked for; ~0 = not known
  uint64_t user_data;
  uint16_t opcode;
};

inline constexpr uint32_t kNoSystemEvent = 0xffffffff;

struct SystemEvent {
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t duration_ns = 0;
  SpanId span = kNoSpan;             // the innermost span around the event on its thread
  uint32_t around = kNoSystemEvent;  // the innermost SystemEvent around it, in `span` too
  ThreadIndex thread{};
  SystemFileId file = kNoSystemFile;
  SystemKind kind = SystemKind::kCall;
  SpanEnd end = SpanEnd::kReturn;  // kTruncated: its thread or the recording ended in it
  // it began before `start_ns`, the moment from which on it was recorded
  bool open_at_begin = false;
  uint8_t depth = 0;  // how many SystemEvents are around it
  union {
    SystemCallFacts call;
    OffCpuFacts off_cpu;
    FaultFacts fault;
    RequestFacts request;
  };

  SystemEvent() : call{} {}
  int64_t end_ns() const { return start_ns + duration_ns; }
  // Returns when the thread of a kOffCpu could run again.
  int64_t runnable_ns() const { return end_ns() - off_cpu.run_queue_ns; }
  // Returns when the waker of a kOffCpu woke the thread. The waker may have gone on before the
  // thread could run.
  int64_t woken_ns() const { return std::max(start_ns, runnable_ns() - off_cpu.wake_up_ns); }
};

using SystemEventStore = ChunkStore<SystemEvent>;

enum class SystemFileKind : uint8_t {
  kOther = 0,
  kRegular = 1,
  kDirectory = 2,
  kDevice = 3,
  kPipe = 4,
  kSocket = 5,
  kAnonymous = 6,
};

struct SystemFile {
  SystemFileKind kind = SystemFileKind::kOther;
  // An absolute path; "pipe:[INODE]", "anon_inode:[eventfd]"; of a socket "tcp:LOCAL->PEER" with
  // addresses as "127.0.0.1:80" or "[::1]:80", "unix:PATH", "socket:[INODE]".
  std::string name;
  uint64_t inode = 0;
  uint32_t device = 0;
};

// What the pointers among a call's arguments pointed to. Times are not here
// (SystemCallFacts::time_ns), because there are many different ones.
struct SystemPaths {
  std::string first;    // absolute where the directory that it starts at is known; empty = none
  std::string second;   // absolute where its directory is known; empty = none
  std::string address;  // a socket's: "127.0.0.1:80", "unix:/run/x"; empty = none
  std::vector<uint64_t> fields = {};  // the first ones of a structure; empty = none
  bool operator==(const SystemPaths&) const = default;
};

// All events of the kernel in a recording, and the tables that they refer to.
struct SystemRows {
  std::unique_ptr<SystemEventStore> events;  // in order of their start; null = none
  std::vector<SystemFile> files = std::vector<SystemFile>(1);
  std::vector<SystemPaths> paths = std::vector<SystemPaths>(1);
};

// The tables that SystemFileId and SystemPathsId are indices into. The first entry of each table,
// if there is one, stands for "none".
struct SystemTables {
  std::span<const SystemFile> files;
  std::span<const SystemPaths> paths;

  // Return the entry; nullptr: the id means "none" or is not in the table.
  const SystemFile* File(SystemFileId id) const;
  const SystemPaths* Paths(SystemPathsId id) const;
};

// Returns the category of the row: "syscall", "sched", "fault" or "io_request".
std::string_view SystemCategoryName(SystemKind kind);
// Returns the name of the reason: "preempted", "lock", "io", "poll", "sleep", "fault", "child",
// "signal", "other", "new", "event" or "gil".
std::string_view WaitReasonName(WaitReason reason);
// Returns the name of the area: "heap", "stack", "file", "anonymous" or "unknown".
std::string_view FaultAreaName(FaultArea area);

}  // namespace proftrace
