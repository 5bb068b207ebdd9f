// Keeps the cookies of probes whose links are for all processes (bpf/kernel/cookies.bpf.h). Such
// links are needed where the kernel passes only a process's first thread to a link for that
// process; the program then tells the processes apart.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

// Consecutive entries of the table. They are freed with the last pointer that Put() returned for
// them.
struct CookieRoom {
  uint32_t first = 0;
  uint32_t count = 0;
};

// May be used from several threads.
class CookieTable : public std::enable_shared_from_this<CookieTable> {
 public:
  // Enough for some hundred attached libraries.
  static constexpr uint32_t kEntries = 1u << 20;

  // `map_fd` is the map probe_cookies, which has `entries` entries. It must stay open as long as
  // cookies are put into it.
  static std::shared_ptr<CookieTable> Make(int map_fd, uint32_t entries = kEntries);
  CookieTable(const CookieTable&) = delete;
  CookieTable& operator=(const CookieTable&) = delete;

  // Puts the cookies of probes into the table, for hits of `pid` alone where it is given, and
  // replaces them by the indexes of their entries. Returns null where no room is left, or the
  // kernel refused.
  std::shared_ptr<const CookieRoom> Put(std::vector<uint64_t>* cookies, std::optional<Pid> pid);

 private:
  CookieTable(int map_fd, uint32_t entries) : map_fd_(map_fd), free_{{0, entries}} {}
  std::optional<uint32_t> Take(uint32_t count);
  void Free(const CookieRoom& room);

  int map_fd_;
  std::mutex mutex_;
  std::map<uint32_t, uint32_t> free_;  // free runs of entries, as lengths by their first entry
};

}  // namespace proftrace
