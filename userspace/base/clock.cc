#include "userspace/base/clock.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <limits>
#include <string>

namespace proftrace {
namespace {

constexpr char kInitialNamespace[] = "time:[4026531834]";  // PROC_TIME_INIT_INO of the kernel

std::string ReadLink(const char* path) {
  std::array<char, 64> text{};
  const ssize_t bytes = readlink(path, text.data(), text.size());
  return bytes > 0 ? std::string(text.data(), static_cast<size_t>(bytes)) : std::string();
}

}  // namespace

std::optional<int64_t> ReadTimeNamespaceOffsetNs(clockid_t clock) {
  const std::string own = ReadLink("/proc/self/ns/time");
  // Linux has time namespaces since 5.6; before, there is no offset.
  if (own.empty() || own == kInitialNamespace) return 0;
  // The file holds the offsets of the namespace that children enter, which may be another one than
  // this process's own.
  if (own != ReadLink("/proc/self/ns/time_for_children")) return std::nullopt;
  std::FILE* file = std::fopen("/proc/self/timens_offsets", "re");
  if (file == nullptr) return std::nullopt;
  const std::string wanted = clock == CLOCK_BOOTTIME ? "boottime" : "monotonic";
  std::optional<int64_t> offset;
  std::array<char, 16> name{};
  long long seconds = 0;
  long long nanoseconds = 0;
  while (std::fscanf(file, "%15s %lld %lld", name.data(), &seconds, &nanoseconds) == 3) {
    if (wanted == name.data()) offset = int64_t{seconds} * 1'000'000'000 + nanoseconds;
  }
  std::fclose(file);
  return offset;
}

int64_t TimeNamespaceOffsetNs() {
  // A local static would be locked while it is made: a process that is forked in this moment would
  // wait for that lock for ever. Threads that come first at the same time read the same value.
  constexpr int64_t kNotRead = std::numeric_limits<int64_t>::min();
  constinit static std::atomic<int64_t> offset = kNotRead;
  int64_t known = offset.load(std::memory_order_relaxed);
  if (known == kNotRead) {
    known = ReadTimeNamespaceOffsetNs().value_or(0);
    offset.store(known, std::memory_order_relaxed);
  }
  return known;
}

}  // namespace proftrace
