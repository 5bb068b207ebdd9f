// The kernel's system calls: their names, arguments and purposes. Numbers and names come from the
// kernel's headers that proftrace was built with; arguments have the names of the manual's section
// 2. Calls of other ABIs (32-bit programs, x32) have a number and nothing else: no PyTorch runs on
// them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "userspace/model/system_event.h"

namespace proftrace {

// The kernel's MAX_ERRNO: results from -kLastErrno to -1 are errors.
constexpr int64_t kLastErrno = 4095;

// The purpose of a call.
enum class CallClass : uint8_t {
  kOther = 0,
  kFileIo = 1,     // files, directories, pipes, and their names
  kNetworkIo = 2,  // sockets
  kLock = 3,       // futexes, semaphores, flock
  kPoll = 4,
  kSleep = 5,
  kChild = 6,
  kSignal = 7,
  kMemory = 8,  // maps, moves or frees addresses; also those of mapped files
  kProcess = 9,
  kQueue = 10,  // queues of messages
};

// How an argument is meant. A file, path or address without "other" or "second" is what the call
// works on.
enum class ArgumentKind : uint8_t {
  kHex = 0,  // 64 bits
  kFlags,    // 32 bits, in hex
  kPointer,
  kInt,         // 32 bits
  kUnsigned,    // 32 bits
  kCallNumber,  // the number of a system call; 0 = not known
  kSize,        // bytes that the call is about
  kOtherSize,
  // Places.
  kFd,
  kOtherFd,
  kTargetFd,  // the file that the call moves bytes to
  kPath,
  kDirectoryFd,  // the directory at which the path starts
  kSecondPath,
  kSecondDirectoryFd,
  kText,        // pointer to text that is no place
  kOffset,      // bytes, signed
  kOffsetHigh,  // a second half that the kernel ignores
  kSockaddr,
  kSockaddrLength,
  kSockaddrLengthPointer,  // the call writes the address
  // Pointers to structures. StructureFields() tells which of their fields are recorded.
  kOpenHow,
  kCloneArgs,
  kMessage,          // struct msghdr
  kReceivedMessage,  // struct msghdr; the call writes the address
  kMessages,         // an array of struct mmsghdr, of which the sum of their bytes is recorded
  kIoctlArgument,    // a pointer to an int; other arguments of an ioctl are not recorded
  kStructureSize,
  // Times.
  kTimespec,  // pointer
  kDeadline,  // pointer to a timespec that is always a moment, never a duration
  kTimeval,   // pointer
  kTimeoutMs,
  kTimerFlags,      // flags that tell whether a time is a moment or a duration
  kFutexOperation,  // tells which arguments the call looks at, and how
  // Numbers that are shown as they are.
  kOpenFlags,
  kAtFlags,  // AT_EMPTY_PATH and the like
  kMode,
  kWhence,
  kIoctlRequest,
  kSignal,
};
inline constexpr size_t kArgumentKinds = static_cast<size_t>(ArgumentKind::kSignal) + 1;

struct ArgumentInfo {
  std::string_view name;  // as in the manual
  ArgumentKind kind = ArgumentKind::kHex;
};

inline constexpr size_t kMostArguments = 6;

// Returns the first fields of a structure, in their order. Fields without a name are not shown.
// Empty: arguments of this kind are no structures.
std::span<const ArgumentInfo> StructureFields(ArgumentKind kind);

// Tells which argument of a call has which purpose: the argument's number + 1, or 0 where the call
// has no such argument. `address` and `address_bytes` may be a field of the structure instead:
// kMostArguments + the field's number + 1.
struct CallPlaces {
  uint8_t fd = 0;
  uint8_t path = 0;
  uint8_t directory = 0;         // 0 = the current directory
  uint8_t second_path = 0;       // or text
  uint8_t second_directory = 0;  // or, where there is no second path, the file that bytes go to
  uint8_t time = 0;              // a pointer
  uint8_t address = 0;           // of a socket
  uint8_t address_bytes = 0;
  uint8_t structure = 0;  // a pointer
};

struct SystemCallInfo {
  std::string_view name;  // never empty
  std::array<ArgumentInfo, kMostArguments> arguments;
  std::span<const ArgumentInfo> fields;  // StructureFields() of the structure
  CallPlaces places;
  CallClass call_class = CallClass::kOther;
  WaitReason wait_reason = WaitReason::kOther;
  uint8_t argument_count = 0;
  bool is_described = false;     // otherwise the arguments are "arg0" to "arg5"
  bool is_io = false;            // it moves bytes of files or the network
  bool gives_file = false;       // its result is a file descriptor
  bool renames = false;          // files may have other names afterwards
  bool execs = false;            // after a success the memory that its arguments point to is gone
  bool fills_address = false;    // `address` is written by the call; an argument `address_bytes` is
                                 // where its size is
  bool second_is_text = false;   // `second_path` starts at no directory
  bool fields_are_32 = false;    // `fields` have 32 bits
  uint8_t message_bytes = 0;     // of a struct mmsghdr that `structure` points to; 0 = to none
  bool ends_thread = false;      // it never returns
  bool time_is_timeval = false;  // the time is in microseconds instead of nanoseconds
  bool leaves_time = false;      // the call writes the time that is left where `time` points
  bool changes_directory = false;  // the one at which relative paths start
};

inline constexpr uint32_t kSystemCallNumbers = 1024;  // all numbers are below this

// Finds a call by its number. nullptr: this build does not know the number, or `abi` is not
// x86-64's. Takes constant time and may be called from any thread.
const SystemCallInfo* FindSystemCall(SystemAbi abi, uint64_t number);

// Returns the name of a call: "futex"; "system call 999" for a number that this build does not
// know; "32-bit call 240" and "x32 call 202" for calls of other ABIs.
std::string SystemCallName(SystemAbi abi, uint64_t number);

// Returns the call that restart_syscall continues: a futex call, poll, or a sleep; there are no
// others. Only the kernel's function in which the thread sleeps tells which one. nullopt:
// `kernel_function` belongs to none of these calls.
std::optional<uint16_t> RestartedCall(SystemAbi abi, std::string_view kernel_function);

// Returns what a thread waits for in a call; kOther also for calls that this build does not know.
WaitReason ReasonOfCall(SystemAbi abi, int32_t number);

// Returns the name of an error: "ENOENT" for 2, "ERESTARTSYS" and other errors that only the kernel
// sees as well; "errno 4000" for a number without a name.
std::string ErrnoName(int number);

// Returns the name of a signal: "SIGTERM" for 15; "SIGRT_2" for 34, the third one of the kernel's
// real-time signals; "0" for 0.
std::string SignalName(int number);

// Returns the name of a request to io_uring: "READV" for 1; "request 200" for one that this build
// does not know.
std::string RequestName(uint32_t opcode);

}  // namespace proftrace
