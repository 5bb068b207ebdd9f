// The rule about the driving thread's own I/O: which files, which calls, and how much.
#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "userspace/aggregate/io_roles.h"
#include "userspace/aggregate/system_text.h"
#include "userspace/base/saturating.h"
#include "userspace/why/rules.h"
#include "userspace/why/wait_places.h"

namespace proftrace {
namespace {

// What calls of StepPart::kIo did with one file, or with files that have something in common.
struct FileUse {
  int64_t ns = 0;
  uint64_t calls = 0;
  std::map<IoRole, int64_t> ns_by_role;
  std::map<IoRole, int64_t> bytes_by_role;
  std::map<std::string, int64_t> ns_by_call;
  std::set<std::string> files;
  std::string call;        // where the file is not known
  bool is_stream = false;  // its other end decides how long a call takes: a pipe, for example

  // Returns the role of the calls that took most of the time; kNone: they moved no bytes, as
  // accept().
  IoRole role() const { return LargestValue(ns_by_role)->first; }
  int64_t bytes() const {
    const auto found = bytes_by_role.find(role());
    return found == bytes_by_role.end() ? 0 : found->second;
  }
};

bool IsStream(const SystemFile& file) {
  const bool is_terminal =
      file.kind == SystemFileKind::kDevice &&
      (file.name.starts_with("/dev/pts/") || file.name.starts_with("/dev/tty"));
  return is_terminal || file.kind == SystemFileKind::kPipe || file.kind == SystemFileKind::kSocket;
}

using FileUses = std::map<std::string, FileUse>;

struct IoUses {
  FileUses by_file;   // by name; calls whose file is not known, by theirs
  FileUses by_group;  // see FileGroupText()
  int64_t ns = 0;
};

// Finds the entries of FileUses that a call belongs to. Names are made once for each file, because
// a step may have thousands of calls.
class UsesOfFile {
 public:
  UsesOfFile(const Timeline& timeline, IoUses* uses) : timeline_(timeline), uses_(uses) {}

  const std::array<FileUse*, 2>& Of(const SystemEvent& event, const std::string& call) {
    if (const auto known = known_.find(Raw(event.file)); known != known_.end()) {
      return known->second;
    }
    const std::string name = FileText(timeline_, event.file);
    const SystemFile* const file = timeline_.system_tables().File(event.file);
    const std::array<FileUse*, 2> of = {&uses_->by_file[name.empty() ? call : name],
                                        &uses_->by_group[FileGroupText(timeline_, event.file)]};
    for (FileUse* use : of) {
      if (name.empty()) use->call = call;
      use->files.insert(name);
      use->is_stream = file != nullptr && IsStream(*file);
    }
    // Calls without a file are told apart by their names.
    return name.empty() ? last_ = of : known_.emplace(Raw(event.file), of).first->second;
  }

 private:
  const Timeline& timeline_;
  IoUses* uses_;
  absl::flat_hash_map<uint32_t, std::array<FileUse*, 2>> known_;  // by SystemFileId
  std::array<FileUse*, 2> last_{};
};

IoUses UsesOfIo(const Case& job) {
  const SystemTables& tables = job.timeline.system_tables();
  IoUses uses;
  UsesOfFile files(job.timeline, &uses);
  ForEachEventIn(job, StepPart::kIo, [&](const SystemEvent& event) {
    if (!IsIo(event)) return;
    uses.ns += event.duration_ns;
    const IoFacts io = IoOf(tables, event);
    const std::string call = SystemEventName(event);
    for (FileUse* use : files.Of(event, call)) {
      use->ns += event.duration_ns;
      use->ns_by_role[io.role] += event.duration_ns;
      use->ns_by_call[call] += event.duration_ns;
      use->bytes_by_role[io.role] = SaturatingSum(use->bytes_by_role[io.role], io.bytes);
      ++use->calls;
    }
  });
  return uses;
}

FileUses::const_iterator Longest(const FileUses& uses) {
  return std::max_element(uses.begin(), uses.end(),
                          [](const auto& a, const auto& b) { return a.second.ns < b.second.ns; });
}

// The files that the calls of StepPart::kIo used longest: one, or several of a group where no file
// has half of the time.
struct IoPlace {
  std::string text;  // "/data/7.bin", "194 sockets to 10.0.0.1:80"
  const FileUse* use = nullptr;
  size_t others = 0;  // files
};

IoPlace LongestOf(const IoUses& uses) {
  const auto file = Longest(uses.by_file);
  const auto group = Longest(uses.by_group);
  const size_t grouped = group->second.files.size();
  const bool has_group = !group->first.empty() && grouped > 1 && 2 * group->second.ns > uses.ns;
  if (2 * file->second.ns > uses.ns || !has_group) {
    return {file->first, &file->second, uses.by_file.size() - 1};
  }
  return {std::to_string(grouped) + " " + group->first, &group->second,
          uses.by_file.size() - grouped};
}

// "12 calls on /data/shard-17.tar took 1.20 s; 96 MB were read, 80 MB a second."
std::string FileUseText(const std::string& file, const FileUse& use) {
  std::string text = CountText(use.calls, "call", "calls") +
                     (use.call.empty() ? " on " + file : " of " + use.call) + " took " +
                     DurationText(use.ns);
  const IoRole role = use.role();
  const int64_t bytes = use.bytes();
  if (bytes <= 0 || use.ns <= 0) {
    if (use.call.empty() && !use.is_stream) {
      const auto call = LargestValue(use.ns_by_call);
      text += ", " + PercentText(call->second, use.ns) + " of it in " + call->first + "()";
    }
    return text + (use.is_stream && role == IoRole::kRead ? ", and no data came." : ".");
  }
  text += "; " + BytesText(bytes) + (bytes == 1 ? " was " : " were ") +
          (role == IoRole::kWrite ? "written" : "read");
  if (!use.is_stream) {  // how fast a pipe or socket is, is a matter of its other end
    text += ", " +
            BytesText(static_cast<int64_t>(static_cast<double>(bytes) * 1e9 /
                                           static_cast<double>(use.ns))) +
            " a second";
  }
  return text + ".";
}

// Returns a clause on calls that take most of the time and move no bytes: those that wait until
// data is on the disk, or ask for names and attributes. Empty: most of the time is of other calls.
std::string NoBytesText(const IoUses& uses) {
  std::map<std::string, int64_t> ns_of;
  int64_t idle_ns = 0;  // of calls that move no bytes
  for (const auto& [file, use] : uses.by_file) {
    for (const auto& [call, ns] : use.ns_by_call) ns_of[call] += ns;
    if (use.is_stream) continue;
    for (const auto& [role, ns] : use.ns_by_role) {
      if (role == IoRole::kNone || role == IoRole::kOpen) idle_ns += ns;
    }
  }
  const auto most = LargestValue(ns_of);
  constexpr std::string_view kSyncing[] = {"fsync", "fdatasync", "sync_file_range",
                                           "msync", "sync",      "syncfs"};
  const bool is_syncing =
      2 * most->second > uses.ns &&
      std::find(std::begin(kSyncing), std::end(kSyncing), most->first) != std::end(kSyncing);
  if (is_syncing) return " waits until what it wrote is on the disk (" + most->first + ")";
  if (2 * idle_ns <= uses.ns) return "";
  return " is mostly in calls about files that read and write nothing (" + most->first + ")";
}

}  // namespace

std::optional<Finding> FindIo(const Case& job) {
  Finding finding = FindingOf(job, FindingKind::kIo, StepPart::kIo,
                              DriverText(job) + " itself reads or writes files or sockets");
  const IoUses uses = UsesOfIo(job);
  const PlaceWaits waits =
      LongestPlace(job, [](const WaitSum& wait) { return wait.reason == WaitReason::kIo; });
  if (uses.by_file.empty()) {
    if (waits.largest != nullptr) finding.evidence.push_back(WaiterText(job, waits) + ".");
    finding.next = kMoreOfKernel;
    return finding;
  }
  const IoPlace longest = LongestOf(uses);
  finding.evidence.push_back(FileUseText(longest.text, *longest.use));
  if (longest.others > 0) {
    finding.evidence.push_back(CountText(longest.others, "other file", "other files") +
                               " took less: 'proftrace report --by-file' lists all.");
  }
  if (const std::string text = NoBytesText(uses); !text.empty()) {
    finding.what = DriverText(job) + text;
  }
  const bool waits_for_peer =
      longest.use->is_stream && waits.largest != nullptr && 2 * waits.blocked_ns > finding.ns;
  if (waits_for_peer) {
    const IoRole role = longest.use->role();
    finding.what =
        DriverText(job) +
        (role == IoRole::kWrite  ? " waits until a pipe, socket or terminal takes its data"
         : role == IoRole::kRead ? " waits for data from a pipe, socket or terminal"
                                 : " waits for the other end of a socket: for a request, "
                                   "or for a connection");
    finding.evidence.push_back(WaiterText(job, waits) + WakerText(job, waits));
  }
  AddPlaces(job, StepPart::kIo, &finding);
  if (waits_for_peer) AddMeanwhile(job, StepPart::kIo, waits.largest, &finding);
  return finding;
}

}  // namespace proftrace
