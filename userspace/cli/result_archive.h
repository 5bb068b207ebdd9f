// Makes a result one file, or writes it to standard output: a tar archive (-o FILE.tar, -o -).
//
// The result is first made in a directory like any other result: FILE.tar.partial beside the file,
// or a directory for temporary files. At the end the archive is made from the directory, which is
// then removed. Where the archive cannot be written, the directory stays, and a message names it.
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
  // Returns whether `output`, the value of -o, asks for an archive.
  static bool IsAsked(std::string_view output) { return output == "-" || output.ends_with(".tar"); }

  // Checks that the archive can be written. With "-", standard output is for the archive alone from
  // here on: everything that this process or a command that it starts prints there goes to standard
  // error. Fails with kUsage or kOutputFailed.
  static absl::StatusOr<ResultArchive> Prepare(const std::string& output, bool force);

  // Returns the archive's name for messages: "the archive" or the file's path.
  const std::string& shown() const { return shown_; }
  // Makes the directory for a result that would have the name `name`.
  absl::StatusOr<ResultDirectory> MakeDirectory(const std::string& name);
  // Writes the contents of the directory, and then removes it. The capture comes first, so that an
  // archive that is cut off can still be reported. Fails with kOutputFailed, and says where the
  // result is.
  absl::Status Finish(const ResultDirectory& directory);

 private:
  absl::Status Write(const ResultDirectory& directory, ByteSink* sink) const;
  absl::StatusOr<std::unique_ptr<ByteSink>> OpenSink();

  std::string shown_;
  std::string file_;  // the file; empty for standard output
  std::string top_;   // the folder in the archive
  UniqueFd output_;   // the original standard output
  std::unique_ptr<OutputDirectory> parent_;
};

}  // namespace proftrace
