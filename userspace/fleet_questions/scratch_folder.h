// A folder of our own that is there as long as a question is asked: what an engine spills, and
// directories under names that mean nothing to it.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "userspace/base/guarded_folder.h"

namespace proftrace {

class ScratchFolder {
 public:
  // Makes it in $TMPDIR, else in /tmp. Fails with kOutputFailed.
  static absl::StatusOr<std::unique_ptr<ScratchFolder>> Make();
  // Removes it, and what is in it; where links lead to stays.
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // Letters, digits, '/', '.', '_' and '-' alone.
  const std::string& path() const { return path_; }

  // Returns a path to the directory, made of the same characters.
  absl::StatusOr<std::string> Link(const std::string& directory);

  // Writes the text into a file that is not there yet, or anew, and returns its path.
  absl::StatusOr<std::string> Write(const std::string& name, const std::string& text);

 private:
  ScratchFolder(GuardedFolder parent, GuardedFolder folder, std::string name);

  GuardedFolder parent_;
  GuardedFolder folder_;
  std::string name_;
  std::string path_;
  int links_ = 0;
};

}  // namespace proftrace
