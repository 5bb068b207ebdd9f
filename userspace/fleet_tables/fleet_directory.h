// The directory that holds a fleet's tables. Many processes may write into it at once, and each may
// be killed at any moment.
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
// All files appear whole, by a rename. A `.pending` file whose lock nobody holds was left by a
// process that was killed. The files of that input are removed then; the `.pending` file stays, to
// tell that the input is missing, until the input is ingested again.
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

// The identity of an input's file, as stat(2) tells it without reading the file.
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
  std::vector<std::string> files;  // paths of the tables and facts, relative to the directory
  // The NAMEs of the inputs that this one replaces: earlier contents of the same path, or the
  // summaries that were compacted into it.
  std::vector<std::string> replaces;
  std::string failure;      // why the input is not whole
  bool is_removal = false;  // the input was being removed
  // A flight recorder's summary, which is not a file that can be read again.
  bool is_summary = false;
  int64_t writer = 0;  // PID of the process that adds the input
};

// Returns the ID of a summary's series, which stands for the process that was summarised. The names
// of its parts begin with this ID.
std::string SeriesOf(const InputRecord& record);

// Returns the name of a partition's folder, which is never too long for a file system and never
// leads elsewhere. Characters other than letters, digits, '.', '_' and '-' become "%" and two hex
// digits; long names end with a hash.
std::string PartitionFolder(std::string_view column, std::string_view value);

class FleetDirectory {
 public:
  // Opens a directory, or makes it where it is missing. Fails with ExitCode::kUsage where something
  // else has this path, and with kOutputFailed where the directory cannot be written.
  static absl::StatusOr<std::unique_ptr<FleetDirectory>> OpenOrMake(const std::string& path);
  // Opens a directory that exists.
  static absl::StatusOr<std::unique_ptr<FleetDirectory>> Open(const std::string& path);
  // Returns the directory that `fd` is open on, which OpenOrMake() must have opened before. `fd`
  // stays the caller's. `path` is for messages.
  static absl::StatusOr<std::unique_ptr<FleetDirectory>> OfDescriptor(int fd,
                                                                      const std::string& path);

  // A lock that is held until this object is destroyed or the process ends.
  class Lock {
   public:
    explicit Lock(UniqueFd fd) : fd_(std::move(fd)) {}

   private:
    UniqueFd fd_;
  };
  // The lock that a process holds while it reads all inputs, or replaces inputs by others.
  static constexpr char kAlignedLock[] = "aligned";
  // Locks an input's name, or kAlignedLock. `waits`: whether to wait until nobody else has the
  // lock; otherwise the result is nullopt where somebody has it.
  absl::StatusOr<std::optional<Lock>> TryLock(std::string_view name, bool waits) const;

  // Removes the files that killed processes have left. Returns the inputs that are not whole:
  // because their ingest was killed, because they could not be read, or because a process is adding
  // them just now.
  absl::StatusOr<std::vector<InputRecord>> Recover() const;
  // Returns the inputs that are completely in the directory, by name.
  absl::StatusOr<std::map<std::string, InputRecord>> Inputs() const;
  // Returns the input of that name; nullopt unless it is whole.
  std::optional<InputRecord> Find(const std::string& name) const;

  // Notes that files of the record may be there from now on. The caller must hold the input's lock.
  absl::Status Announce(const InputRecord& record) const;
  // Notes that the input is whole, and removes the inputs that it replaces.
  absl::Status Commit(const InputRecord& record) const;
  // Notes that the input could not be read, and removes its files.
  absl::Status Fail(const InputRecord& record) const;
  // Removes the files of an input that is not whole. The caller must hold its lock.
  void Discard(const InputRecord& record) const;
  // Removes an input's rows. It needs no lock, because nobody adds an input that is already there.
  absl::Status Remove(const InputRecord& record) const;

  // Starts a file at a path relative to the directory, and makes the folders of the path.
  absl::StatusOr<std::unique_ptr<ByteSink>> Create(const std::string& path) const;
  // Removes a file at a path relative to the directory.
  void RemoveFile(const std::string& path) const;

  int fd() const { return folder_.fd(); }
  // Makes a file in the directory that never gets a name, for data that only this program reads
  // again. Returns an invalid descriptor on failure, with the reason in errno.
  UniqueFd CreateScratch() const { return folder_.CreateTemporary(); }
  const std::string& path() const { return path_; }
  std::string FactsPath(const std::string& id) const { return "facts/" + id + ".gz"; }

 private:
  FleetDirectory(GuardedFolder folder, const std::string& path)
      : folder_(std::move(folder)), path_(path) {}
  absl::Status Mark() const;
  void Forget(const std::string& path) const;
  // Removes the inputs that the record replaces, where they are still there.
  absl::Status RemoveReplaced(const InputRecord& record) const;
  // Removes the files of a record, and the files that its writer has left without a final name.
  void RemoveFiles(const InputRecord& record) const;
  std::optional<GuardedFolder> FolderOf(const std::string& path, std::string* name) const;
  absl::Status WriteRecord(const InputRecord& record, std::string_view ending) const;
  std::vector<std::string> NamesWith(std::string_view ending) const;
  std::optional<InputRecord> ReadRecord(const std::string& name, std::string_view ending) const;

  GuardedFolder folder_;
  std::string path_;
};

}  // namespace proftrace
