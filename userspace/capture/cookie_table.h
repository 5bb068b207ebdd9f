// The cookies of probes whose links are for all processes (bpf/kernel/cookies.bpf.h): a kernel that
// passes only a process's first thread to a link of its own has them told apart by the program.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

// Entries in a row, free again at its end.
struct CookieRoom {
  uint32_t first = 0;
  uint32_t count = 0;
};

// Used from several threads.
class CookieTable : public std::enable_shared_from_this<CookieTable> {
 public:
  // Enough for some hundred attached libraries.
  static constexpr uint32_t kEntries = 1u << 20;

  // `map_fd`: probe_cookies, with so many entries; must be open as long as cookies are put there.
  static std::shared_ptr<CookieTable> Make(int map_fd, uint32_t entries = kEntries);
  CookieTable(const CookieTable&) = delete;
  CookieTable& operator=(const CookieTable&) = delete;

  // Puts the cookies of probes there, for hits of `pid` alone, if any, and makes them the indexes
  // of their entries. Null: no room is left, or the kernel refused.
  std::shared_ptr<const CookieRoom> Put(std::vector<uint64_t>* cookies, std::optional<Pid> pid);

 private:
  CookieTable(int map_fd, uint32_t entries) : map_fd_(map_fd), free_{{0, entries}} {}
  std::optional<uint32_t> Take(uint32_t count);
  void Free(const CookieRoom& room);

  int map_fd_;
  std::mutex mutex_;
  std::map<uint32_t, uint32_t> free_;  // entries in a row, by the first
};

}  // namespace proftrace
