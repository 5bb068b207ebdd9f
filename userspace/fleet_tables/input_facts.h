// What a fleet's directory keeps of an input beside its tables: all that the common clock is
// computed from, and the rows that are written again when it is known.
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

// The job of inputs that tell none: questions join tables by it, so that it is never absent.
inline constexpr std::string_view kUnnamedJob = "-";

// One process or rank of an input.
struct InputFacts {
  std::string id;  // of its tables: 16 hex digits
  SourceFacts source;
  // Added to the times of `source` to get those of its tables.
  int64_t unix_offset_ns = 0;
  uint64_t bytes = 0;  // of the input

  std::string kernel;
  std::optional<int64_t> cpus;
  std::string gpu;
  std::string torch_version;
  std::string cuda_version;
  std::string proftrace_version;
  std::optional<int64_t> lost;  // records
  std::optional<double> overhead_percent;
  std::string unsupported;     // sentences
  std::vector<StepRow> steps;  // times of its tables

  // The second of Unix time that a flight recorder's window ends with; nullopt: it is no summary.
  // All windows of one process have the same `id`, and are one recording with gaps (JoinSeries()).
  std::optional<int64_t> window_end_s;
  // Each window of such a recording: the number of its first step, and when it ended.
  struct Segment {
    int64_t first_step = 0;
    int64_t window_end_s = 0;
  };
  std::vector<Segment> segments;
};

// Returns the number of the step of the driving thread that a time lies in. `steps`: in order.
std::optional<int64_t> StepAt(const std::vector<StepRow>& steps, int64_t time_ns);

// Writes the facts as lines of text: an object, then a list of numbers a step and a call, then the
// number of lines.
absl::Status WriteInputFacts(const InputFacts& facts, ByteSink& sink);

// Reads them again: one, or one for each summary that the file has the facts of, one behind the
// other. ExitCode::kInputDamaged: they are not whole, or not those of this version.
absl::StatusOr<std::vector<std::unique_ptr<InputFacts>>> ReadInputFacts(const std::string& path);

// Returns the text of such a file as it was given to the sink, unread. Fails with kInputDamaged.
absl::StatusOr<std::string> ReadFactsText(const std::string& path);

}  // namespace proftrace
