// The columns that each table of a fleet begins with: the job, host and rank of a row, so that
// tables of many recordings can be joined to one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/tables/capture_rows.h"
#include "exporters/tables/column.h"
#include "exporters/tables/process_rows.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct RowKeys {
  std::string_view job;
  std::optional<int64_t> attempt;
  std::string_view host;
  std::optional<int64_t> rank;
  std::string_view input;
};

// The keys of a recording's rows, by their process. The timeline must outlive this.
class TableKeys {
 public:
  explicit TableKeys(const Timeline& timeline);
  // Makes keys that are the same for all rows.
  explicit TableKeys(const RowKeys& all) : all_(all) {}

  // Sets, for tables of many recordings, the name of this one, and the job of rows that have none.
  void SetInput(std::string_view input, std::string_view unnamed_job) {
    input_ = input;
    unnamed_job_ = unnamed_job;
  }
  // Returns the keys of rows that belong to no single process: those on which all ranks agree.
  RowKeys OfRecording() const { return WithInput(all_); }
  RowKeys OfProcess(uint32_t pid) const {
    const auto at = of_process_.find(pid);
    return WithInput(at == of_process_.end() ? all_ : at->second);
  }
  template <typename Row>
  RowKeys Of(const Row& row) const {
    if constexpr (requires { row.pid.has_value(); }) {
      return row.pid.has_value() ? OfProcess(*row.pid) : OfRecording();
    } else if constexpr (requires { row.pid; }) {
      return OfProcess(row.pid);
    } else {
      return OfRecording();
    }
  }

 private:
  RowKeys WithInput(RowKeys keys) const {
    keys.input = input_;
    if (keys.job.empty()) keys.job = unnamed_job_;
    return keys;
  }

  std::map<uint32_t, std::string> jobs_;  // the texts behind the keys
  std::map<uint32_t, RowKeys> of_process_;
  RowKeys all_;
  std::string_view input_;
  std::string_view unnamed_job_;
};

// True for tables that have such a column of their own, at another place.
template <typename Row>
inline constexpr bool kHasOwnHost = false;
template <>
inline constexpr bool kHasOwnHost<CaptureRow> = true;
template <typename Row>
inline constexpr bool kHasOwnRank = false;
template <>
inline constexpr bool kHasOwnRank<ProcessRow> = true;

// A row with its keys. `kWithInput`: true in tables of many recordings.
template <typename Row, bool kWithInput>
struct KeyedRow {
  const Row* row = nullptr;
  RowKeys keys;
};

template <typename Row, bool kWithInput, typename Visit>
void ForEachCell(const KeyedRow<Row, kWithInput>& keyed, Visit&& visit) {
  static const Row kNoRow{};
  const RowKeys& keys = keyed.keys;
  visit(Column{"job", "The job: torchrun's run id, else Slurm's number of it."}, keys.job);
  visit(Column{"attempt", "The count of restarts of the job, as its launcher has it."},
        keys.attempt);
  if constexpr (!kHasOwnHost<Row>) visit(Column{"host", "The host's name."}, keys.host);
  if constexpr (!kHasOwnRank<Row>) {
    visit(Column{"rank", "The rank in the job; empty for what is of no rank, or of several."},
          keys.rank);
  }
  if constexpr (kWithInput) {
    visit(
        Column{
            "input",
            "The input that the row is of: 16 hex digits, what the names of its files begin with."},
        keys.input);
  }
  ForEachCell(keyed.row == nullptr ? kNoRow : *keyed.row, visit);
}

}  // namespace proftrace
