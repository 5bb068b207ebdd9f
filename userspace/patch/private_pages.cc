#include "userspace/patch/private_pages.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "symbols/plan/process.h"

namespace proftrace {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kPresent = uint64_t{1} << 63;
constexpr uint64_t kSwapped = uint64_t{1} << 62;
constexpr uint64_t kOfFile = uint64_t{1} << 61;
constexpr uint64_t kEntriesAtOnce = 4096;

bool IsOwn(uint64_t entry) {
  return (entry & kSwapped) != 0 || ((entry & kPresent) != 0 && (entry & kOfFile) == 0);
}

// Returns the pagemap entries of `count` pages from `address` on, or of fewer if not all can be
// read.
std::vector<uint64_t> ReadEntries(int file, uint64_t address, uint64_t count) {
  std::vector<uint64_t> entries(count);
  const auto at = static_cast<off_t>(address / kPageBytes * sizeof(uint64_t));
  const ssize_t bytes = pread(file, entries.data(), count * sizeof(uint64_t), at);
  entries.resize(bytes > 0 ? static_cast<size_t>(bytes) / sizeof(uint64_t) : 0);
  return entries;
}

}  // namespace

PrivatePages::PrivatePages(Pid pid)
    : file_(open(("/proc/" + std::to_string(Raw(LivingThread(pid))) + "/pagemap").c_str(),
                 O_RDONLY | O_CLOEXEC)) {}

bool PrivatePages::AreOfFile(uint64_t begin, uint64_t end) const {
  const uint64_t count = (end - begin) / kPageBytes;
  const std::vector<uint64_t> entries = ReadEntries(file_.get(), begin, count);
  return entries.size() == count && std::none_of(entries.begin(), entries.end(), IsOwn);
}

std::vector<std::pair<uint64_t, uint64_t>> PrivatePages::Find(uint64_t begin, uint64_t end,
                                                              uint64_t most_bytes) const {
  std::vector<std::pair<uint64_t, uint64_t>> runs;
  for (uint64_t at = begin; at < end;) {
    const std::vector<uint64_t> entries =
        ReadEntries(file_.get(), at, std::min((end - at) / kPageBytes, kEntriesAtOnce));
    if (entries.empty()) break;
    for (const uint64_t entry : entries) {
      const bool joins = !runs.empty() && runs.back().second == at &&
                         at + kPageBytes - runs.back().first <= most_bytes;
      if (IsOwn(entry) && joins) {
        runs.back().second += kPageBytes;
      } else if (IsOwn(entry)) {
        runs.emplace_back(at, at + kPageBytes);
      }
      at += kPageBytes;
    }
  }
  return runs;
}

uint64_t PrivatePages::BytesToOwn(std::vector<uint64_t> addresses) const {
  for (uint64_t& address : addresses) address &= ~(kPageBytes - 1);
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  uint64_t bytes = 0;
  for (size_t i = 0; i < addresses.size();) {
    const uint64_t begin = addresses[i];
    const uint64_t count = std::min((addresses.back() - begin) / kPageBytes + 1, kEntriesAtOnce);
    const std::vector<uint64_t> entries = ReadEntries(file_.get(), begin, count);
    for (; i < addresses.size() && (addresses[i] - begin) / kPageBytes < count; ++i) {
      const uint64_t page = (addresses[i] - begin) / kPageBytes;
      if (page >= entries.size() || !IsOwn(entries[page])) bytes += kPageBytes;
    }
  }
  return bytes;
}

}  // namespace proftrace
