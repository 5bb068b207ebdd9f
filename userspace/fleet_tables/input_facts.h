// The facts of an input that a fleet's directory keeps beside its tables: everything that the
// common clock is computed from, and the rows that are written again when that clock is known.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "exporters/sinks/output_file.h"
#include "exporters/tables/step_rows.h"
#include "userspace/collectives/source_input.h"

namespace proftrace {

// The job of inputs that tell none. It is never left empty, because questions join tables by the
// job.
inline constexpr std::string_view kUnnamedJob = "-";

// One process or rank of an input.
struct InputFacts {
  std::string id;  // the ID of its tables: 16 hex digits
  SourceFacts source;
  // The number of ns to add to times of `source` to get the times of its tables.
  int64_t unix_offset_ns = 0;
  uint64_t bytes = 0;  // size of the input

  std::string kernel;
  std::optional<int64_t> cpus;
  std::string gpu;
  std::string torch_version;
  std::string cuda_version;
  std::string proftrace_version;
  std::optional<int64_t> lost;  // records
  std::optional<double> overhead_percent;
  std::string unsupported;     // sentences
  std::vector<StepRow> steps;  // steps with the times of the tables

  // The second of Unix time with which a flight recorder's window ends; nullopt where the input is
  // not a summary. All windows of one process have the same `id`, and are one recording with gaps
  // (JoinSeries()).
  std::optional<int64_t> window_end_s;
  // A window of such a recording: the number of its first step, and when the window ended.
  struct Segment {
    int64_t first_step = 0;
    int64_t window_end_s = 0;
  };
  std::vector<Segment> segments;
};

// Returns the number of the driving thread's step in which a time lies; nullopt where it lies in
// none. `steps` must be in order.
std::optional<int64_t> StepAt(const std::vector<StepRow>& steps, int64_t time_ns);

// Writes the facts as lines of text: an object, then a list of numbers for each step and each call,
// then the number of lines.
absl::Status WriteInputFacts(const InputFacts& facts, ByteSink& sink);

// Reads the facts in a file: of one input or, for compacted summaries, of one summary after the
// other. Fails with ExitCode::kInputDamaged where they are not whole, or of another version.
absl::StatusOr<std::vector<std::unique_ptr<InputFacts>>> ReadInputFacts(const std::string& path);

// Returns the text of such a file as WriteInputFacts() wrote it, without checking it. Fails with
// kInputDamaged.
absl::StatusOr<std::string> ReadFactsText(const std::string& path);

}  // namespace proftrace
