#include "symbols/plan/analysed_files.h"

namespace proftrace {

std::optional<ModuleFacts> AnalysedFiles::Find(const FileState& state) const {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(state);
  return known == entries_.end() ? std::nullopt : std::optional(known->second.facts);
}

void AnalysedFiles::Add(std::shared_ptr<const HeldFile> file, const ModuleFacts& facts) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= kMostFiles) return;
  const FileState state = file->state();
  entries_.try_emplace(state, Entry{std::move(file), facts});
}

}  // namespace proftrace
