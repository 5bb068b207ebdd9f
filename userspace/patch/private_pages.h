// Which pages of a file's mapping a process has made its own, by writing to them
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

  // Whether none of the pages of [begin, end) is the process's own. False where that cannot be
  // read.
  bool AreOfFile(uint64_t begin, uint64_t end) const;
  // Runs of pages of [begin, end) that are its own, ascending, of at most `most_bytes` each. Empty
  // where that cannot be read.
  std::vector<std::pair<uint64_t, uint64_t>> Find(uint64_t begin, uint64_t end,
                                                  uint64_t most_bytes) const;
  // Returns the bytes of the pages at `addresses` that are not its own yet: what it takes to write
  // there. A page that cannot be read counts as not its own.
  uint64_t BytesToOwn(std::vector<uint64_t> addresses) const;

 private:
  UniqueFd file_;
};

}  // namespace proftrace
