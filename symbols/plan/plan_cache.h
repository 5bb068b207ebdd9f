// Keeps the static half of probe plans on disk: one small file for each analysed library
// (cache_folder.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "symbols/plan/cache_folder.h"
#include "symbols/process/held_file.h"
#include "symbols/torch/module_analysis.h"

namespace proftrace {

class PlanCache {
 public:
  explicit PlanCache(const std::string& directory)
      : folder_(directory, {'P', 'T', 'P', 'L', 'A', 'N', 'C', '\n'}) {}

  bool usable() const { return folder_.usable(); }
  // Whether facts about the file can be kept. `build_id`: the one that the file states.
  bool MayKeep(const HeldFile& file, const std::string& build_id) const {
    return usable() && !FileIdentity(file, build_id).empty();
  }
  // Returns the facts kept of the file; nullopt: there is no entry, or it fails a check.
  std::optional<ModuleFacts> Load(const HeldFile& file, const std::string& build_id) const;
  void Store(const HeldFile& file, const std::string& build_id, const ModuleFacts& facts) const;

 private:
  CacheFolder folder_;
};

// Encode and decode the content of an entry, without header and checksum. `file_bytes`: the size of
// the library, inside of which every offset must lie.
std::string EncodeFacts(std::string_view identity, const ModuleFacts& facts);
std::optional<ModuleFacts> DecodeFacts(std::string_view bytes, std::string_view identity,
                                       uint64_t file_bytes);

}  // namespace proftrace
