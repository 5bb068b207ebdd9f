// The hand-written part of system_calls.cc: the arguments of system calls, by the call's name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "userspace/model/system_calls.h"

namespace proftrace {

enum SystemCallRowFlag : uint8_t {
  kGivesFile = 1,
  kRenames = 2,
  kExecs = 4,
  kEndsThread = 8,
  kLeavesTime = 16,
  kChangesDirectory = 32,
};

// One system call. A row without arguments is a call that takes none.
struct SystemCallRow {
  std::string_view name;
  CallClass call_class;
  ArgumentInfo arguments[6];  // up to the first without a name
  uint8_t flags = 0;          // a sum of SystemCallRowFlag
};

std::span<const SystemCallRow> FileAndSocketRows();
std::span<const SystemCallRow> OtherRows();

// Arguments that several calls have.
inline constexpr ArgumentInfo kFd{"fd", ArgumentKind::kFd};
inline constexpr ArgumentInfo kDirFd{"dirfd", ArgumentKind::kDirectoryFd};
inline constexpr ArgumentInfo kPathname{"pathname", ArgumentKind::kPath};
inline constexpr ArgumentInfo kBuf{"buf", ArgumentKind::kPointer};
inline constexpr ArgumentInfo kAddr{"addr", ArgumentKind::kPointer};
inline constexpr ArgumentInfo kCount{"count", ArgumentKind::kSize};
inline constexpr ArgumentInfo kSize{"size", ArgumentKind::kSize};
inline constexpr ArgumentInfo kLen{"len", ArgumentKind::kSize};
inline constexpr ArgumentInfo kOffset{"offset", ArgumentKind::kOffset};
inline constexpr ArgumentInfo kFlags{"flags", ArgumentKind::kFlags};
inline constexpr ArgumentInfo kOpenFlags{"flags", ArgumentKind::kOpenFlags};
inline constexpr ArgumentInfo kAtFlags{"flags", ArgumentKind::kAtFlags};
inline constexpr ArgumentInfo kMode{"mode", ArgumentKind::kMode};
inline constexpr ArgumentInfo kTimeout{"timeout", ArgumentKind::kTimespec};
inline constexpr ArgumentInfo kTimeoutMs{"timeout", ArgumentKind::kTimeoutMs};
inline constexpr ArgumentInfo kSigmask{"sigmask", ArgumentKind::kPointer};
inline constexpr ArgumentInfo kSigsetSize{"sigsetsize", ArgumentKind::kUnsigned};
inline constexpr ArgumentInfo kSignal{"sig", ArgumentKind::kSignal};
inline constexpr ArgumentInfo kClock{"clockid", ArgumentKind::kInt};
inline constexpr ArgumentInfo kPid{"pid", ArgumentKind::kInt};
inline constexpr ArgumentInfo kCmd{"cmd", ArgumentKind::kInt};

constexpr ArgumentInfo Pointer(std::string_view name) { return {name, ArgumentKind::kPointer}; }
constexpr ArgumentInfo Int(std::string_view name) { return {name, ArgumentKind::kInt}; }
constexpr ArgumentInfo Unsigned(std::string_view name) { return {name, ArgumentKind::kUnsigned}; }
constexpr ArgumentInfo Hex(std::string_view name) { return {name, ArgumentKind::kHex}; }
constexpr ArgumentInfo Flags(std::string_view name) { return {name, ArgumentKind::kFlags}; }

}  // namespace proftrace
