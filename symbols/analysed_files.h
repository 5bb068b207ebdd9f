// What was found out about files in this run, for other processes that have mapped them too.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "symbols/held_file.h"
#include "symbols/module_analysis.h"

namespace proftrace {

// Beside the cache on disk, for files of which that keeps nothing: where nothing tells a file
// system from one that had its number before (volume_identity.h). Here each file is held, so that
// nobody else gets its numbers. Used by several threads.
class AnalysedFiles {
 public:
  // Some PyTorchs with their extensions; what comes then is analysed again each time.
  static constexpr size_t kMostFiles = 256;

  std::optional<ModuleFacts> Find(const FileState& state) const;
  void Add(std::shared_ptr<const HeldFile> file, const ModuleFacts& facts);

 private:
  struct Entry {
    std::shared_ptr<const HeldFile> file;
    ModuleFacts facts;
  };

  mutable std::mutex mutex_;
  std::map<FileState, Entry> entries_;
};

}  // namespace proftrace
