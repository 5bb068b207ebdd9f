#include "userspace/aggregate/io_roles.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

// Tells where an event has its number of bytes.
enum class Bytes : uint8_t { kNone, kResult, kMessages };

struct NamedRole {
  std::string_view name;
  IoRole role;
  Bytes bytes = Bytes::kResult;
};

// System calls by the kernel's names.
constexpr NamedRole kCalls[] = {
    {"open", IoRole::kOpen, Bytes::kNone},
    {"openat", IoRole::kOpen, Bytes::kNone},
    {"openat2", IoRole::kOpen, Bytes::kNone},
    {"creat", IoRole::kOpen, Bytes::kNone},
    {"read", IoRole::kRead},
    {"pread64", IoRole::kRead},
    {"readv", IoRole::kRead},
    {"preadv", IoRole::kRead},
    {"preadv2", IoRole::kRead},
    {"recv", IoRole::kRead},
    {"recvfrom", IoRole::kRead},
    {"recvmsg", IoRole::kRead},
    {"recvmmsg", IoRole::kRead, Bytes::kMessages},
    {"recvmmsg_time64", IoRole::kRead, Bytes::kMessages},
    {"write", IoRole::kWrite},
    {"pwrite64", IoRole::kWrite},
    {"writev", IoRole::kWrite},
    {"pwritev", IoRole::kWrite},
    {"pwritev2", IoRole::kWrite},
    {"send", IoRole::kWrite},
    {"sendto", IoRole::kWrite},
    {"sendmsg", IoRole::kWrite},
    {"sendmmsg", IoRole::kWrite, Bytes::kMessages},
    {"vmsplice", IoRole::kWrite},
    {"sendfile", IoRole::kMove},
    {"sendfile64", IoRole::kMove},
    {"copy_file_range", IoRole::kMove},
    {"splice", IoRole::kMove},
};

// Requests by the names of RequestName().
constexpr NamedRole kRequests[] = {
    {"OPENAT", IoRole::kOpen, Bytes::kNone},
    {"OPENAT2", IoRole::kOpen, Bytes::kNone},
    {"READ", IoRole::kRead},
    {"READV", IoRole::kRead},
    {"READ_FIXED", IoRole::kRead},
    {"READ_MULTISHOT", IoRole::kRead},
    {"RECV", IoRole::kRead},
    {"RECVMSG", IoRole::kRead},
    {"WRITE", IoRole::kWrite},
    {"WRITEV", IoRole::kWrite},
    {"WRITE_FIXED", IoRole::kWrite},
    {"SEND", IoRole::kWrite},
    {"SENDMSG", IoRole::kWrite},
    {"SEND_ZC", IoRole::kWrite},
    {"SENDMSG_ZC", IoRole::kWrite},
    {"SPLICE", IoRole::kMove},
};

template <size_t kCount>
const NamedRole* FindRole(const NamedRole (&roles)[kCount], std::string_view name) {
  const auto* found = std::find_if(std::begin(roles), std::end(roles),
                                   [&](const NamedRole& one) { return one.name == name; });
  return found == std::end(roles) ? nullptr : found;
}

constexpr size_t kOpcodes = 256;

struct Tables {
  std::array<const NamedRole*, kSystemCallNumbers> calls{};
  std::array<const NamedRole*, kOpcodes> requests{};

  Tables() {
    for (uint32_t number = 0; number < kSystemCallNumbers; ++number) {
      const SystemCallInfo* info = FindSystemCall(SystemAbi::kX86_64, number);
      if (info != nullptr) calls[number] = FindRole(kCalls, info->name);
    }
    for (uint32_t opcode = 0; opcode < kOpcodes; ++opcode) {
      requests[opcode] = FindRole(kRequests, RequestName(opcode));
    }
  }
};

const NamedRole* RoleOf(const SystemEvent& event) {
  static const Tables& tables = *new Tables();
  if (event.kind == SystemKind::kCall && event.call.abi == SystemAbi::kX86_64 &&
      event.call.number < kSystemCallNumbers) {
    return tables.calls[event.call.number];
  }
  if (event.kind == SystemKind::kRequest && event.request.opcode < kOpcodes) {
    return tables.requests[event.request.opcode];
  }
  return nullptr;
}

int64_t ResultOf(const SystemEvent& event) {
  if (event.end == SpanEnd::kTruncated) return 0;
  if (event.kind == SystemKind::kCall) return event.call.result;
  return event.kind == SystemKind::kRequest ? event.request.result : 0;
}

int64_t BytesOfMessages(const SystemTables& tables, const SystemEvent& event) {
  const SystemPaths* told = tables.Paths(event.call.paths);
  if (ResultOf(event) <= 0 || told == nullptr || told->fields.size() != 1) return 0;
  // A damaged capture may have any number here.
  return static_cast<int64_t>(std::min<uint64_t>(told->fields[0], INT64_MAX));
}

}  // namespace

IoFacts IoOf(const SystemTables& tables, const SystemEvent& event) {
  const NamedRole* role = RoleOf(event);
  if (role == nullptr) return IoFacts{};
  switch (role->bytes) {
    case Bytes::kNone:
      break;
    case Bytes::kResult:
      return IoFacts{role->role, std::max<int64_t>(ResultOf(event), 0)};
    case Bytes::kMessages:
      return IoFacts{role->role, BytesOfMessages(tables, event)};
  }
  return IoFacts{role->role, 0};
}

bool IsIo(const SystemEvent& event) {
  if (event.kind == SystemKind::kRequest) return true;
  if (event.kind != SystemKind::kCall) return false;
  const SystemCallInfo* info = FindSystemCall(event.call.abi, event.call.number);
  return info != nullptr && info->is_io;
}

bool HasFailed(const SystemEvent& event) {
  const int64_t result = ResultOf(event);
  return result < 0 && result >= -kLastErrno;
}

}  // namespace proftrace
