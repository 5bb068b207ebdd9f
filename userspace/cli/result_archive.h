// A result that becomes one file, or goes to standard output: a tar archive (-o FILE.tar, -o -).
//
// The result is made in a directory as any other: beside the file, as FILE.tar.partial, or in a
// place for temporary files. The archive is made of it at the end, and the directory is removed.
// Where the archive cannot be written, the directory stays, and its name is said.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/sinks/output_file.h"
#include "userspace/base/unique_fd.h"
#include "userspace/cli/result_directory.h"

namespace proftrace {

class ResultArchive {
 public:
  // Whether `output`, of -o, asks for an archive.
  static bool IsAsked(std::string_view output) { return output == "-" || output.ends_with(".tar"); }

  // Looks whether the archive can be written. From here on "-" has standard output for itself: what
  // is printed there, by a command that is started as well, goes to the standard error output.
  // Fails with kUsage or kOutputFailed.
  static absl::StatusOr<ResultArchive> Prepare(const std::string& output, bool force);

  // Returns what is said to users: "the archive" or the file's path.
  const std::string& shown() const { return shown_; }
  // Makes the directory for a result that would have the name `name`.
  absl::StatusOr<ResultDirectory> MakeDirectory(const std::string& name);
  // Writes what is in the directory, the capture first: of an archive that was cut it can be
  // reported. Then removes the directory. Fails with kOutputFailed, and says where the result is.
  absl::Status Finish(const ResultDirectory& directory);

 private:
  absl::Status Write(const ResultDirectory& directory, ByteSink* sink) const;
  absl::StatusOr<std::unique_ptr<ByteSink>> OpenSink();

  std::string shown_;
  std::string file_;  // empty: standard output
  std::string top_;   // the folder in the archive
  UniqueFd output_;   // standard output, as it was
  std::unique_ptr<OutputDirectory> parent_;
};

}  // namespace proftrace
