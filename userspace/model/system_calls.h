// The kernel's system calls: their names, what their arguments are, and what they are for. Numbers
// and names come from the kernel's headers that this was built with; arguments are told by name as
// in the manual's section 2. Calls of other ABIs (32-bit programs, x32) have a number and nothing
// else: no PyTorch runs on them.
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

// What a call is for.
enum class CallClass : uint8_t {
  kOther = 0,
  kFileIo = 1,     // files, directories, pipes, and their names
  kNetworkIo = 2,  // sockets
  kLock = 3,       // futexes, semaphores, flock
  kPoll = 4,
  kSleep = 5,
  kChild = 6,
  kSignal = 7,
  kMemory = 8,  // addresses; also of mapped files
  kProcess = 9,
  kQueue = 10,  // of messages
};

// How an argument is meant. A file, path or address without "other" or "second" is what the call
// works on.
enum class ArgumentKind : uint8_t {
  kHex = 0,  // 64 bits
  kFlags,    // 32 bits, in hex
  kPointer,
  kInt,         // 32 bits
  kUnsigned,    // 32 bits
  kCallNumber,  // of a system call; 0 = not known
  kSize,        // bytes that the call is about
  kOtherSize,
  // Places.
  kFd,
  kOtherFd,
  kTargetFd,  // that it moves bytes to
  kPath,
  kDirectoryFd,  // that the path starts at
  kSecondPath,
  kSecondDirectoryFd,
  kText,        // pointer to text that is no place
  kOffset,      // bytes, signed
  kOffsetHigh,  // a second half that the kernel ignores
  kSockaddr,
  kSockaddrLength,
  kSockaddrLengthPointer,  // the call writes the address
  // Structures: StructureFields() tells what of them is recorded.
  kOpenHow,
  kCloneArgs,
  kMessage,          // struct msghdr
  kReceivedMessage,  // struct msghdr; the call writes the address
  kMessages,         // of struct mmsghdr: the bytes of all of them are recorded
  kIoctlArgument,    // of an int; what else an ioctl takes is not recorded
  kStructureSize,
  // Times.
  kTimespec,  // pointer
  kDeadline,  // as kTimespec; always a moment, not a duration
  kTimeval,   // pointer
  kTimeoutMs,
  kTimerFlags,      // tell whether a time is a moment
  kFutexOperation,  // tells which arguments the call looks at, and how
  // Numbers that are told as they are.
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

// Returns the first fields of a structure, in their order; those without a name are not told.
// Empty: the kind is none of a structure.
std::span<const ArgumentInfo> StructureFields(ArgumentKind kind);

// Arguments by their number + 1; 0 = it has none. `address` and `address_bytes` may be fields of
// the structure: kMostArguments + the field's number + 1.
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
  bool is_io = false;            // of files or the network
  bool gives_file = false;       // its result is a file descriptor
  bool renames = false;          // files may have other names afterwards
  bool execs = false;            // if it succeeds, what its arguments point to is gone
  bool fills_address = false;    // `address` is written by the call; an argument `address_bytes` is
                                 // where its size is
  bool second_is_text = false;   // `second_path` starts at no directory
  bool fields_are_32 = false;    // `fields` have 32 bits
  uint8_t message_bytes = 0;     // of a struct mmsghdr that `structure` points to; 0 = to none
  bool ends_thread = false;      // it never returns
  bool time_is_timeval = false;  // microseconds instead of nanoseconds
  bool leaves_time = false;      // at its end there is what is left of it
  bool changes_directory = false;  // the one that relative paths start at
};

inline constexpr uint32_t kSystemCallNumbers = 1024;  // all are below this

// Finds a call; nullptr: this build does not know it, or it is none of x86-64. It is an index into
// an array; from any thread.
const SystemCallInfo* FindSystemCall(SystemAbi abi, uint64_t number);

// "futex"; "system call 999" for one that this build does not know; "32-bit call 240" and
// "x32 call 202" for calls of other ABIs.
std::string SystemCallName(SystemAbi abi, uint64_t number);

// Returns the call that restart_syscall goes on with, which only the kernel's function that the
// thread sleeps in tells: futex, poll or a sleep; there are no others. nullopt: that says nothing
// of it.
std::optional<uint16_t> RestartedCall(SystemAbi abi, std::string_view kernel_function);

// Returns what a thread waits for in a call; kOther also for calls that this build does not know.
WaitReason ReasonOfCall(SystemAbi abi, int32_t number);

// "ENOENT" for 2; "ERESTARTSYS" and others that only the kernel sees as well; "errno 4000".
std::string ErrnoName(int number);

// "SIGTERM" for 15; "SIGRT_2" for 34, the third one of the kernel's real-time signals; "0".
std::string SignalName(int number);

// Returns what io_uring was asked for: "READV" for 1; "request 200" for one that this build does
// not know.
std::string RequestName(uint32_t opcode);

}  // namespace proftrace
