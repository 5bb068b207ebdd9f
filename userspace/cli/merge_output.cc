#include "userspace/cli/merge_output.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>

#include "userspace/base/exit_status.h"
#include "userspace/base/guarded_folder.h"

namespace proftrace {
namespace {

constexpr int kEndingSignals[] = {SIGINT, SIGTERM, SIGHUP};

sigset_t EndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : kEndingSignals) sigaddset(&signals, number);
  return signals;
}

// Blocks the signals that would end this process, for as long as this object lives.
class WaitingSignals {
 public:
  WaitingSignals() {
    const sigset_t signals = EndingSignals();
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  ~WaitingSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WaitingSignals(const WaitingSignals&) = delete;
  WaitingSignals& operator=(const WaitingSignals&) = delete;

 private:
  sigset_t before_;
};

absl::Status NoDirectory(const std::string& output, std::string_view why) {
  std::string text = "cannot make the directory " + output + ": ";
  return Fail(ExitCode::kOutputFailed, text.append(why) + "; choose another place with -o");
}

std::string Reason(const absl::Status& status) { return std::string(status.message()); }

// Removes a directory that has only files in it.
void RemoveAll(const GuardedFolder& parent, const GuardedFolder& folder, const std::string& name) {
  const int listed = openat(folder.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(listed < 0 ? nullptr : fdopendir(listed),
                                                    closedir);
  while (const dirent* entry = entries ? readdir(entries.get()) : nullptr) {
    const std::string file = entry->d_name;
    if (file != "." && file != "..") folder.Remove(file);
  }
  parent.RemoveFolder(name);
}

// Fails where something is already at the directory's place, unless it is an empty directory.
absl::Status CheckIsFree(const GuardedFolder& parent, const std::string& name,
                         const std::string& output) {
  const auto existing = parent.Find(name);
  if (!existing) return absl::OkStatus();
  if (!S_ISDIR(existing->st_mode)) {
    return NoDirectory(output,
                       "a file has that name, and it does not end in .json, .json.gz, .pftrace or "
                       ".pftrace.gz");
  }
  bool is_made = false;
  const absl::StatusOr<GuardedFolder> folder = parent.Make(name, &is_made);
  if (!folder.ok()) return NoDirectory(output, Reason(folder.status()));
  return folder->IsEmpty() ? absl::OkStatus() : NoDirectory(output, "it is not empty");
}

}  // namespace

MergeFormat MergeFormatOf(const std::string& output) {
  const auto ends_in = [&](const std::string& suffix) {
    return output.ends_with(suffix) || output.ends_with(suffix + ".gz");
  };
  if (ends_in(".json")) return MergeFormat::kChrome;
  if (ends_in(".pftrace")) return MergeFormat::kPerfetto;
  return MergeFormat::kDirectory;
}

absl::Status WithNewDirectory(const std::string& output,
                              const std::function<absl::Status(const std::string& path)>& work) {
  std::string name;
  const absl::StatusOr<GuardedFolder> parent = GuardedFolder::OpenParent(output, &name);
  if (!parent.ok()) return NoDirectory(output, Reason(parent.status()));
  if (const std::string why = parent->WhyNotTrusted(); !why.empty()) {
    return NoDirectory(output, why);
  }
  if (absl::Status status = CheckIsFree(*parent, name, output); !status.ok()) return status;
  const WaitingSignals waiting;
  const std::string temporary = ".proftrace-" + std::to_string(getpid()) + ".merge";
  bool is_made = false;
  const absl::StatusOr<GuardedFolder> folder = parent->Make(temporary, &is_made);
  if (!folder.ok()) return NoDirectory(output, Reason(folder.status()));
  absl::Status status = work(folder->path());
  // With kEventsLost the output is whole, but not as precise as was asked for, and is kept.
  const bool is_kept = status.ok() || ExitCodeOf(status) == ExitCode::kEventsLost;
  if (is_kept && parent->Rename(temporary, name)) return status;
  if (is_kept) status = NoDirectory(output, ErrnoText(errno));
  if (is_made) RemoveAll(*parent, *folder, temporary);
  return status;
}

void EndBySignals() {
  const sigset_t signals = EndingSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace proftrace
