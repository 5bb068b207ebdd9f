// Keeps the facts that this run has found about files, for other processes that have mapped the
// same files.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "symbols/process/held_file.h"
#include "symbols/torch/module_analysis.h"

namespace proftrace {

// Complements the cache on disk, which keeps no facts of a file whose file system cannot be told
// from an earlier one with the same number (volume_identity.h). Every file in here is held open, so
// that no other file can get its numbers. May be used by several threads.
class AnalysedFiles {
 public:
  // Enough for several installations of PyTorch with their extensions. A file beyond that number is
  // analysed again each time.
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
