// Finds which pages of a file's mapping a process has made its own, by writing to them
// (Documentation/admin-guide/mm/pagemap.rst).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"

namespace proftrace {

class PrivatePages {
 public:
  explicit PrivatePages(Pid pid);

  // Whether none of the pages in [begin, end) is the process's own. Returns false if that cannot be
  // read.
  bool AreOfFile(uint64_t begin, uint64_t end) const;
  // Returns runs of the pages in [begin, end) that are the process's own, ascending, of at most
  // `most_bytes` each. Returns none if that cannot be read.
  std::vector<std::pair<uint64_t, uint64_t>> Find(uint64_t begin, uint64_t end,
                                                  uint64_t most_bytes) const;
  // Returns how many bytes of memory it takes to write to the pages at `addresses`, which is the
  // size of those that are not the process's own yet. A page that cannot be read counts as not its
  // own.
  uint64_t BytesToOwn(std::vector<uint64_t> addresses) const;

 private:
  UniqueFd file_;
};

}  // namespace proftrace
