#include "userspace/aggregate/file_io.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "userspace/aggregate/io_roles.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/base/saturating.h"
#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

class FileSummer {
 public:
  FileSummer(const Timeline& timeline, const StepWindows* windows)
      : timeline_(timeline),
        tables_(timeline.system_tables()),
        by_id_(tables_.files.size()),
        shares_(windows) {}

  std::vector<FileIo> Run(std::vector<WindowShare>* shares) {
    for (uint32_t i = 0; i < timeline_.system_event_count(); ++i) {
      const SystemEvent& event = timeline_.system_event(i);
      if (event.kind == SystemKind::kOffCpu) {
        AddOffCpu(event);
      } else if (event.kind == SystemKind::kFault) {
        AddFault(event);
      } else if (IsIo(event)) {
        AddIo(event);
      }
    }
    std::vector<uint32_t> order(rows_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](uint32_t left, uint32_t right) {
      const FileIo& a = rows_[left];
      const FileIo& b = rows_[right];
      return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.name < b.name;
    });
    std::vector<FileIo> sorted;
    std::vector<std::optional<uint32_t>> numbers(rows_.size());
    for (const uint32_t row : order) {
      numbers[row] = static_cast<uint32_t>(sorted.size());
      sorted.push_back(std::move(rows_[row]));
    }
    if (shares != nullptr) *shares = shares_.Take(numbers);
    return sorted;
  }

 private:
  FileIo* RowOf(const std::string& name, SystemFileKind kind) {
    const auto [it, inserted] = by_name_.try_emplace(name, rows_.size());
    if (inserted) {
      rows_.emplace_back();
      rows_.back().name = name;
    }
    FileIo& row = rows_[it->second];
    if (row.kind == SystemFileKind::kOther) row.kind = kind;
    return &row;
  }

  // Returns the row of the event's file; nullptr: the event has no file.
  FileIo* RowOf(const SystemEvent& event) {
    if (const SystemFile* file = tables_.File(event.file); file != nullptr && !file->name.empty()) {
      size_t& known = by_id_[Raw(event.file)];
      if (known == 0) {
        RowOf(file->name, file->kind);
        known = by_name_.at(file->name) + 1;
      }
      return &rows_[known - 1];
    }
    if (event.kind != SystemKind::kCall) return nullptr;
    const SystemPaths* paths = tables_.Paths(event.call.paths);
    if (paths == nullptr || paths->first.empty()) return nullptr;
    return RowOf(paths->first, SystemFileKind::kOther);
  }

  void AddIo(const SystemEvent& event) {
    const IoFacts io = IoOf(timeline_.system_tables(), event);
    if (io.role == IoRole::kMove) AddOtherEnd(event, io.bytes);
    FileIo* row = RowOf(event);
    if (row == nullptr) return;
    const bool failed = HasFailed(event);
    const bool reads = io.role == IoRole::kRead || io.role == IoRole::kMove;
    const bool writes = io.role == IoRole::kWrite;
    AddShare(event, *row, {1, event.duration_ns, reads ? io.bytes : 0, writes ? io.bytes : 0});
    ++row->calls;
    row->errors += failed ? 1 : 0;
    row->opens += io.role == IoRole::kOpen && !failed ? 1 : 0;
    if (reads) {
      ++row->reads;
      row->bytes_read = SaturatingSum(row->bytes_read, io.bytes);
    } else if (writes) {
      ++row->writes;
      row->bytes_written = SaturatingSum(row->bytes_written, io.bytes);
    }
    row->time_ns += event.duration_ns;
    row->longest_ns = std::max(row->longest_ns, event.duration_ns);
  }

  // Adds the bytes to the file that a call moves them to. The call's time counts only for the file
  // that it reads.
  void AddOtherEnd(const SystemEvent& event, int64_t bytes) {
    if (event.kind != SystemKind::kCall) return;
    const SystemCallInfo* info = FindSystemCall(event.call.abi, event.call.number);
    for (size_t i = 0; i < info->argument_count; ++i) {
      if (info->arguments[i].kind != ArgumentKind::kTargetFd) continue;
      const SystemPaths* paths = tables_.Paths(event.call.paths);
      std::string name = paths != nullptr ? paths->second : "";
      if (name.empty()) {
        name = "fd " + std::to_string(static_cast<int32_t>(event.call.arguments[i])) + " of PID " +
               std::to_string(Raw(timeline_.thread(event.thread).pid));
      }
      FileIo* row = RowOf(name, SystemFileKind::kOther);
      AddShare(event, *row, {1, 0, 0, bytes});
      ++row->calls;
      ++row->writes;
      row->bytes_written = SaturatingSum(row->bytes_written, bytes);
    }
  }

  void AddShare(const SystemEvent& event, const FileIo& row, const ShareValues& more) {
    shares_.Add(event.start_ns, static_cast<uint32_t>(&row - rows_.data()), more);
  }

  void AddOffCpu(const SystemEvent& event) {
    const SystemEvent* call = CallAround(timeline_, event);
    FileIo* row = call != nullptr && IsIo(*call) ? RowOf(*call) : nullptr;
    if (row != nullptr) row->off_cpu_ns += event.duration_ns;
  }

  void AddFault(const SystemEvent& event) {
    if (!event.fault.major) return;
    FileIo* row = RowOf(event);
    if (row == nullptr) return;
    ++row->page_ins;
    row->page_in_ns += event.duration_ns;
  }

  const Timeline& timeline_;
  SystemTables tables_;
  std::vector<FileIo> rows_;
  absl::flat_hash_map<std::string, size_t> by_name_;
  std::vector<size_t> by_id_;  // 1 + the row's index, by SystemFileId; 0 = not known yet
  WindowShares shares_;
};

}  // namespace

std::vector<FileIo> SumFileIo(const Timeline& timeline, const StepWindows* windows,
                              std::vector<WindowShare>* shares) {
  return FileSummer(timeline, windows).Run(shares);
}

}  // namespace proftrace
