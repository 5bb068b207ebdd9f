// A private folder that exists while a question is asked. It holds the data that an engine spills,
// and links to directories whose own names have characters with a meaning to engines.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "userspace/base/guarded_folder.h"

namespace proftrace {

class ScratchFolder {
 public:
  // Makes the folder in $TMPDIR, or else in /tmp. Fails with kOutputFailed.
  static absl::StatusOr<std::unique_ptr<ScratchFolder>> Make();
  // Removes the folder with its contents, but not the directories that its links lead to.
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // Returns the path, which has only letters, digits, '/', '.', '_' and '-'.
  const std::string& path() const { return path_; }

  // Makes a link to the directory, and returns the link's path, which has only these characters as
  // well.
  absl::StatusOr<std::string> Link(const std::string& directory);

  // Writes the text into a new file, or replaces an earlier one of that name, and returns its path.
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
