// The directory that a fleet's tables are in, safe for many that write into it at once and for
// being killed at any moment.
//
//   fleet.json            says what it is
//   lock                  never written to: parts of it are locked (F_OFD_SETLK), so that a lock
//                         ends with the process that has it
//   TABLE/of_job=J/of_attempt=A/of_host=H/of_rank=R/ID.parquet
//   facts/ID.gz           an InputFacts
//   inputs/NAME.json      an input that is whole; NAME is a hash of its bytes
//   inputs/NAME.pending   one that somebody is about to add or take away: with the names of all
//                         that may be there of it
//   inputs/NAME.failed    one that could not be read
//   aligned/              (aligned_tables.h)
//
// All files appear whole, by a rename. A `pending` whose lock nobody has is of one that was killed:
// what is there of that input is taken away again, and the file stays to tell that it is missing,
// until it is ingested.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exporters/sinks/output_file.h"
#include "userspace/base/guarded_folder.h"
#include "userspace/base/unique_fd.h"

namespace proftrace {

// Which file an input is, as far as looking at it without reading tells.
struct FileStamp {
  std::string path;  // absolute, without links
  int64_t bytes = 0;
  int64_t modified_ns = 0;
  int64_t inode = 0;

  bool operator==(const FileStamp&) const = default;
};

// An input as the directory knows it.
struct InputRecord {
  std::string name;  // NAME above
  FileStamp stamp;
  std::vector<std::string> parts;  // IDs
  std::vector<std::string> files;  // of its tables and facts, from the directory on
  // NAMEs: of what the same path had before, or of the summaries that it has the rows of.
  std::vector<std::string> replaces;
  std::string failure;      // why it is not whole
  bool is_removal = false;  // it was being taken away
  bool is_summary = false;  // of a flight recorder: it is no file that can be read again
  int64_t writer = 0;       // the process that adds it
};

// Returns which process a summary is of: the ID of its series, which its parts' names begin with.
std::string SeriesOf(const InputRecord& record);

// Folders of a partition, which are no longer than file systems take and lead nowhere else. What is
// not a letter, digit, '.', '_' or '-' is "%" and two hex digits; long names end with a hash.
std::string PartitionFolder(std::string_view column, std::string_view value);

class FleetDirectory {
 public:
  // Opens a directory, which is made where it is missing. ExitCode::kUsage: there is something
  // else; kOutputFailed: it cannot be written.
  static absl::StatusOr<std::unique_ptr<FleetDirectory>> OpenOrMake(const std::string& path);
  // Opens one that is there.
  static absl::StatusOr<std::unique_ptr<FleetDirectory>> Open(const std::string& path);
  // Returns the one that `fd` is open on, which OpenOrMake() has opened before; `fd` stays the
  // caller's. `path` is for messages.
  static absl::StatusOr<std::unique_ptr<FleetDirectory>> OfDescriptor(int fd,
                                                                      const std::string& path);

  // Held until it is destroyed, or its process ends.
  class Lock {
   public:
    explicit Lock(UniqueFd fd) : fd_(std::move(fd)) {}

   private:
    UniqueFd fd_;
  };
  // Who reads all inputs has this lock, and who puts others in their place.
  static constexpr char kAlignedLock[] = "aligned";
  // Locks an input's name, or kAlignedLock. `waits`: until nobody else has it; else nullopt where
  // somebody has.
  absl::StatusOr<std::optional<Lock>> TryLock(std::string_view name, bool waits) const;

  // Takes away what those have left who were killed. Returns the inputs that are missing for it, or
  // because they could not be read, or that somebody is adding just now.
  absl::StatusOr<std::vector<InputRecord>> Recover() const;
  // Returns the inputs that are whole, by name.
  absl::StatusOr<std::map<std::string, InputRecord>> Inputs() const;
  // Returns the input of that name, if it is whole.
  std::optional<InputRecord> Find(const std::string& name) const;

  // To be called with the input's lock. Says that files of the record may be there from now on.
  absl::Status Announce(const InputRecord& record) const;
  // Says that it is whole; what it replaces is taken away.
  absl::Status Commit(const InputRecord& record) const;
  // Says that it could not be read.
  absl::Status Fail(const InputRecord& record) const;
  // Takes away what is there of an input that is not whole. To be called with its lock.
  void Discard(const InputRecord& record) const;
  // Takes an input's rows away. Without lock of its own: nobody adds an input that is there.
  absl::Status Remove(const InputRecord& record) const;

  // Starts a file at a path from the directory on, whose folders are made.
  absl::StatusOr<std::unique_ptr<ByteSink>> Create(const std::string& path) const;
  // Removes a file at such a path.
  void RemoveFile(const std::string& path) const;

  int fd() const { return folder_.fd(); }
  // Makes a file in it that never gets a name, for what is read again by us alone. Invalid: errno
  // says why not.
  UniqueFd CreateScratch() const { return folder_.CreateTemporary(); }
  const std::string& path() const { return path_; }
  std::string FactsPath(const std::string& id) const { return "facts/" + id + ".gz"; }

 private:
  FleetDirectory(GuardedFolder folder, const std::string& path)
      : folder_(std::move(folder)), path_(path) {}
  absl::Status Mark() const;
  void Forget(const std::string& path) const;
  // Takes away what the record stands for, where that is still there.
  absl::Status RemoveReplaced(const InputRecord& record) const;
  // Removes the files of a record, and what its writer has left that had no name yet.
  void RemoveFiles(const InputRecord& record) const;
  std::optional<GuardedFolder> FolderOf(const std::string& path, std::string* name) const;
  absl::Status WriteRecord(const InputRecord& record, std::string_view ending) const;
  std::vector<std::string> NamesWith(std::string_view ending) const;
  std::optional<InputRecord> ReadRecord(const std::string& name, std::string_view ending) const;

  GuardedFolder folder_;
  std::string path_;
};

}  // namespace proftrace
