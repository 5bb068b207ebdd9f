#include "userspace/patch/ring_room.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "bpf/abi/patch_memory.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"
#include "userspace/patch/private_pages.h"

namespace proftrace {
namespace {

constexpr std::string_view kLimitName = "Max address space";
constexpr size_t kMostBytes = 8192;   // of /proc/PID/status, or of /proc/PID/limits
constexpr uint64_t kShareOfRoom = 4;  // the ring may take a quarter
// These are 256 KiB. A busy thread takes 4 ms or more to write so much; in that time the reader
// looks at the slot several times.
constexpr uint32_t kFewestSlotWords = 1u << 15;

std::string ReadOf(Pid pid, const char* name) {
  return ReadSmallFile("/proc/" + std::to_string(Raw(pid)) + "/" + name, kMostBytes);
}

// Returns a size from /proc/PID/status, such as "VmSize", which the file has in KiB.
uint64_t SizeOf(Pid pid, std::string_view name) {
  const std::string status = ReadOf(pid, "status");
  return std::strtoull(std::string(StatusValue(status, name)).c_str(), nullptr, 10) * 1024;
}

uint64_t MiB(uint64_t bytes) { return bytes >> 20; }

}  // namespace

std::optional<uint64_t> AddressSpaceLimit(std::string_view limits) {
  const size_t at = limits.find(kLimitName);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string text(limits.substr(at + kLimitName.size(), 64));
  char* end = nullptr;
  const uint64_t bytes = std::strtoull(text.c_str(), &end, 10);  // "unlimited" is no number
  return end == text.c_str() ? std::nullopt : std::optional<uint64_t>(bytes);
}

absl::Status FitRing(uint64_t room_bytes, PatchRingOptions* options) {
  const uint64_t share = room_bytes / kShareOfRoom;
  while (PatchRing::Bytes(*options) > share && options->slot_words > kFewestSlotWords) {
    options->slot_words /= 2;
  }
  const uint64_t bytes = PatchRing::Bytes(*options);
  if (bytes <= share) return absl::OkStatus();
  return Fail(ExitCode::kHostUnfit,
              absl::StrCat("it may map ", MiB(room_bytes),
                           " MiB more (RLIMIT_AS, ulimit -v), of which jumps would take ",
                           MiB(bytes), ": its own allocations might fail"));
}

absl::Status FitRing(Pid pid, PatchRingOptions* options) {
  if (const auto limit = AddressSpaceLimit(ReadOf(pid, "limits")); limit.has_value()) {
    const uint64_t mapped = SizeOf(pid, "VmSize");
    absl::Status status = FitRing(*limit > mapped ? *limit - mapped : 0, options);
    if (!status.ok()) return status;
  }
  const std::optional<MemoryRoom> room = ReadMemoryRoom(pid);
  if (!room.has_value()) return absl::OkStatus();
  const std::string status = ReadOf(pid, "status");
  const uint64_t threads = ParseNumber<uint64_t>(StatusValue(status, "Threads")).value_or(1);
  return FitIntoGroup(pid, PrivatePages(pid).BytesToOwn(options->jumps), threads, *room, options);
}

absl::Status FitIntoGroup(Pid pid, uint64_t code_bytes, uint64_t threads, const MemoryRoom& room,
                          PatchRingOptions* options) {
  uint64_t fixed = code_bytes;
  for (const AddressRange& region : options->regions) fixed += region.bytes;
  const uint64_t slots = std::min<uint64_t>(threads, PATCH_SLOTS);
  while (true) {
    // Only the slots that threads write into take memory.
    const absl::Status status =
        CheckMemoryRoom(pid, fixed + PatchRing::Bytes(*options) / PATCH_SLOTS * slots,
                        "jumps in its code and the records of its threads", room);
    if (status.ok() || options->slot_words <= kFewestSlotWords) return status;
    options->slot_words /= 2;
  }
}

uint64_t LockedBytes(Pid pid) { return SizeOf(pid, "VmLck"); }

absl::Status LocksAll(uint64_t ring_bytes) {
  return Fail(ExitCode::kHostUnfit,
              absl::StrCat("it locks all memory that it maps (mlockall with MCL_FUTURE): the ",
                           MiB(ring_bytes), " MiB of the jumps' ring would be locked as well"));
}

}  // namespace proftrace
