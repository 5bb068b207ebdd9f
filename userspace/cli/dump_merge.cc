#include "userspace/cli/dump_merge.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "exporters/sinks/output_file.h"
#include "userspace/base/dumped_json.h"
#include "userspace/base/exit_status.h"
#include "userspace/cli/dump_document.h"
#include "userspace/cli/job_report.h"
#include "userspace/cli/merge_output.h"
#include "userspace/cli/say.h"
#include "userspace/fleet_sources/byte_source.h"

namespace proftrace {
namespace {

constexpr size_t kMarkBytes = 4096;
// The largest dump in bytes. A host with hundreds of processes makes a few megabytes.
constexpr size_t kMostDumpBytes = size_t{256} << 20;

std::string JobText(const std::string& job) {
  return job.empty() ? "a job without a name" : "the job \"" + job + "\"";
}

// Joins dumps, and finds contradictions that show that they are not of one job.
class DumpJoiner {
 public:
  explicit DumpJoiner(std::vector<std::pair<std::string, JobDumps>> files)
      : files_(std::move(files)), set_of_(files_.size()) {
    std::sort(files_.begin(), files_.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::iota(set_of_.begin(), set_of_.end(), size_t{0});
  }

  absl::StatusOr<JobDumps> Join() && {
    PutTogether();
    if (absl::Status status = CheckProcesses(); !status.ok()) return status;
    if (absl::Status status = CheckJobs(); !status.ok()) return status;
    Order();
    return std::move(out_);
  }

 private:
  using HostKey = std::tuple<std::string, std::string, std::string>;

  void PutTogether() {
    std::map<HostKey, uint32_t> numbers;
    const auto key = [](const DumpHost& host) {
      return HostKey(host.name, host.boot_id, host.pid_namespace);
    };
    for (const auto& [path, file] : files_) {
      for (const DumpHost& host : file.hosts) numbers.emplace(key(host), 0);
    }
    for (auto& [host, number] : numbers) {
      number = static_cast<uint32_t>(out_.hosts.size());
      out_.hosts.emplace_back();
    }
    std::set<uint32_t> begun;
    for (size_t i = 0; i < files_.size(); ++i) {
      JobDumps& file = files_[i].second;
      for (DumpHost& host : file.hosts) {
        const uint32_t number = numbers.at(key(host));
        DumpHost& joined = out_.hosts[number];
        if (begun.insert(number).second) {
          joined = host;
          continue;
        }
        joined.begin_unix_ns = std::min(joined.begin_unix_ns, host.begin_unix_ns);
        joined.end_unix_ns = std::max(joined.end_unix_ns, host.end_unix_ns);
        joined.is_whole |= host.is_whole;
      }
      for (RankDump& one : file.dumps) {
        one.host = numbers.at(key(file.hosts[one.host]));
        out_.dumps.push_back(std::move(one));
        file_of_.push_back(i);
      }
      for (NotDumped& one : file.failed) {
        one.host = numbers.at(key(file.hosts[one.host]));
        out_.failed.push_back(std::move(one));
      }
    }
  }

  const std::string& PathOf(size_t file) const { return files_[file].first; }

  absl::Status CheckProcesses() const {
    std::map<std::pair<uint32_t, uint32_t>, size_t> seen;
    for (size_t i = 0; i < out_.dumps.size(); ++i) {
      const RankDump& one = out_.dumps[i];
      const auto [at, is_new] = seen.emplace(std::pair(one.host, Raw(one.dump.pid)), i);
      if (is_new) continue;
      return Fail(ExitCode::kInputsDisagree,
                  "PID " + std::to_string(Raw(one.dump.pid)) + " of " + out_.hosts[one.host].name +
                      " is in " + PathOf(file_of_[at->second]) + " and in " + PathOf(file_of_[i]) +
                      " again; give each process once");
    }
    return absl::OkStatus();
  }

  absl::Status CheckJobs() {
    const std::vector<bool> are_ranks = AreRanks(out_.dumps);
    std::map<std::pair<std::string, int>, size_t> of_rank;
    std::map<std::string, std::pair<int, size_t>> of_size;
    std::map<std::string, size_t> of_job;
    std::map<size_t, std::string> job_of_file;
    for (size_t i = 0; i < out_.dumps.size(); ++i) {
      const RankDump& one = out_.dumps[i];
      if (!are_ranks[i] || !one.rank) continue;
      const size_t file = file_of_[i];
      const size_t other = of_rank.emplace(std::pair(one.job, *one.rank), file).first->second;
      if (other != file) {
        return Fail(ExitCode::kInputsDisagree,
                    "rank " + std::to_string(*one.rank) + " of " + JobText(one.job) + " is in " +
                        PathOf(other) + " and in " + PathOf(file) +
                        ", in different processes; merge the dumps of one job at a time");
      }
      if (one.world_size) {
        const auto& [size, first] =
            of_size.emplace(one.job, std::pair(*one.world_size, file)).first->second;
        if (size != *one.world_size && first != file) {
          return Fail(ExitCode::kInputsDisagree,
                      PathOf(first) + " is of a job of " + std::to_string(size) + " ranks, and " +
                          PathOf(file) + " of one of " + std::to_string(*one.world_size) +
                          "; merge the dumps of one job at a time");
        }
      }
      job_of_file.emplace(file, one.job);
      set_of_[Find(file)] = Find(of_job.emplace(one.job, file).first->second);
    }
    if (job_of_file.empty()) return absl::OkStatus();
    const auto& [first, first_job] = *job_of_file.begin();
    for (const auto& [file, job] : job_of_file) {
      if (Find(file) == Find(first)) continue;
      return Fail(ExitCode::kInputsDisagree, PathOf(first) + " is of " + JobText(first_job) +
                                                 ", and " + PathOf(file) + " of " + JobText(job) +
                                                 "; merge the dumps of one job at a time");
    }
    return absl::OkStatus();
  }

  size_t Find(size_t file) const {
    while (set_of_[file] != file) file = set_of_[file];
    return file;
  }

  void Order() {
    const auto by_process = [](const auto& a, const auto& b) {
      return std::pair(a.host, Raw(a.pid)) < std::pair(b.host, Raw(b.pid));
    };
    std::stable_sort(out_.failed.begin(), out_.failed.end(), by_process);
    std::sort(out_.dumps.begin(), out_.dumps.end(), [](const RankDump& a, const RankDump& b) {
      return std::pair(a.host, Raw(a.dump.pid)) < std::pair(b.host, Raw(b.dump.pid));
    });
  }

  std::vector<std::pair<std::string, JobDumps>> files_;
  std::vector<size_t> file_of_;  // for each dump: index of the file that it is from
  // For each file: another file that has a job in common, or the file itself.
  std::vector<size_t> set_of_;
  JobDumps out_;
};

}  // namespace

absl::StatusOr<bool> AreDumps(const std::vector<std::string>& paths) {
  const std::string* dump = nullptr;
  const std::string* other = nullptr;
  for (const std::string& path : paths) {
    std::error_code error;
    bool is_dump = false;
    if (!std::filesystem::is_directory(path, error)) {
      // A file that cannot be read is reported later, by the code that reads all of it.
      const absl::StatusOr<std::string> text = ReadText(path, kMarkBytes);
      is_dump = text.ok() && IsDumpDocument(*text);
    }
    (is_dump ? dump : other) = &path;
  }
  if (dump != nullptr && other != nullptr) {
    return Fail(ExitCode::kInputsDisagree,
                *dump + " is a dump of stacks, and " + *other +
                    " is none; merge dumps and recordings each by themselves");
  }
  return dump != nullptr;
}

absl::StatusOr<JobDumps> JoinDumps(std::vector<std::pair<std::string, JobDumps>> files) {
  return DumpJoiner(std::move(files)).Join();
}

absl::StatusOr<JobDumps> ReadDumps(const std::vector<std::string>& paths, bool is_for_text) {
  std::vector<std::pair<std::string, JobDumps>> files;
  for (const std::string& path : paths) {
    absl::StatusOr<std::string> text = ReadText(path, kMostDumpBytes);
    if (!text.ok()) return text.status();
    if (text->size() == kMostDumpBytes) {
      return Fail(ExitCode::kInputDamaged,
                  path +
                      " is larger than a dump can be; take it again with 'proftrace dump -a "
                      "--json'");
    }
    absl::StatusOr<JobDumps> all = ReadDumpDocument(*text, path);
    if (!all.ok()) return all.status();
    for (RankDump& one : all->dumps) {
      const DumpedThread* const main = is_for_text ? MainThread(one.dump) : nullptr;
      if (main != nullptr) one.dump.threads = {DumpedThread(*main)};
    }
    files.emplace_back(path, *std::move(all));
  }
  return JoinDumps(std::move(files));
}

absl::Status WriteDumps(const JobDumps& all, const std::string& output, bool as_json) {
  if (output.empty()) {
    if (as_json) {
      PrintDocument(JobJson(all));
    } else {
      PrintJob(all);
    }
    return absl::OkStatus();
  }
  if (MergeFormatOf(output) != MergeFormat::kChrome) {
    return Fail(ExitCode::kUsage,
                "dumps are merged into a text on the standard output, or into a JSON document with "
                "-o NAME.json; leave -o out, or choose such a name");
  }
  const std::filesystem::path path(output);
  const std::string parent = path.parent_path().string();
  const absl::StatusOr<OutputDirectory> directory =
      OutputDirectory::Open(parent.empty() ? "." : parent);
  if (!directory.ok()) return directory.status();
  absl::StatusOr<std::unique_ptr<ByteSink>> sink = directory->Create(path.filename().string());
  if (!sink.ok()) return sink.status();
  const std::string text = AsciiJson(JobJson(all), 2) + "\n";
  if (absl::Status status = (*sink)->Write(text); !status.ok()) return status;
  return (*sink)->Finish();
}

}  // namespace proftrace
