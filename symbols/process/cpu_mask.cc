#include "symbols/process/cpu_mask.h"

#include <absl/strings/str_cat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstddef>

namespace proftrace {
namespace {

constexpr size_t kMostCpus = 8192;  // CONFIG_NR_CPUS of distributions is at most this

}  // namespace

std::optional<CpuMask> ReadCpuMask(Pid pid) {
  constexpr size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;  // NOLINT(google-runtime-int)
  std::array<unsigned long, kMostCpus / kWordBits> words{};       // NOLINT(google-runtime-int)
  if (syscall(SYS_sched_getaffinity, Raw(pid), sizeof(words), words.data()) <= 0) {
    return std::nullopt;
  }
  const auto has = [&words](size_t cpu) {
    return cpu < kMostCpus && ((words[cpu / kWordBits] >> (cpu % kWordBits)) & 1) != 0;
  };
  CpuMask mask;
  for (size_t first = 0; first < kMostCpus; ++first) {
    if (!has(first)) continue;
    size_t last = first;
    while (has(last + 1)) ++last;
    absl::StrAppend(&mask.cpus, mask.cpus.empty() ? "" : ",", first);
    if (last > first) absl::StrAppend(&mask.cpus, "-", last);
    mask.count += static_cast<uint32_t>(last - first + 1);
    first = last;
  }
  return mask;
}

}  // namespace proftrace
