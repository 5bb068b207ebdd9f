// The outputs that a recording can be given in, by name: what --format takes.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/output_file.h"
#include "exporters/stacks/flamegraph_html.h"
#include "exporters/text/table.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/aggregate/stack_diff.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// An earlier recording that the one to export is compared with.
struct Comparison {
  RecordingWords before;
  StackDiff diff;
};

struct ExportInput {
  const Timeline& timeline;
  const Aggregates& aggregates;
  const TableOptions& table;
  std::optional<int> rank = std::nullopt;  // traces: only the processes of that rank; none: all
  // Formats that show stacks: the weight that they show, or show first.
  StackWeight metric = StackWeight::kSelfCpuTime;
  const Comparison* comparison = nullptr;  // of the formats with `compares`
  // Memory timelines: the device, as ExportMemoryTimeline() takes it.
  std::string memory_device = {};
  CsvText csv_text = CsvText::kForSpreadsheets;
  // The directory whose OpenScratch() says where a file may lie until it is an output; Export()
  // fills it in.
  const OutputDirectory* directory = nullptr;
};

enum class FormatNeeds {
  kNothing,
  kMemory,
  kDevice,   // a GPU agent
  kModules,  // nn.Modules
  kSamples,
  kDataWaits,
  kSystemCalls,  // those that do I/O at least
};

struct Format {
  std::string_view name;  // as in --format
  // In the result directory; empty = DefaultFileName() makes it. A format with `write_folder` has
  // its folder's name here.
  std::string_view file_name;
  std::string_view opens_with;  // one sentence for users
  absl::Status (*write)(const ExportInput&, ByteSink&);
  FormatNeeds needs = FormatNeeds::kNothing;  // fails unless that was recorded
  bool compares = false;                      // shows ExportInput::comparison
  // A format that is a folder of files has this instead of `write`: it writes the folder of that
  // name in the directory.
  absl::Status (*write_folder)(const ExportInput&, const OutputDirectory&,
                               const std::string&) = nullptr;
};

bool IsRecorded(FormatNeeds needs, const Timeline& timeline);

// Returns the formats in the order in which they are listed to users.
const std::vector<Format>& Formats();

// Returns the ranks of a recording, ascending, if it holds several.
std::vector<int> SeveralRanks(const Timeline& timeline);

// Fails with ExitCode::kUsage and the list of valid names.
absl::StatusOr<const Format*> FindFormat(std::string_view name);

// "table,csv,chrome"; each name once, in the order given. "none" gives no format; an empty name
// fails.
absl::StatusOr<std::vector<const Format*>> ParseFormatList(std::string_view list);

// Returns the file's name in the result directory. TensorBoard's:
// HOST_PID.TIME_NS.pt.trace.json.gz. Folded stacks: that of their weight.
std::string DefaultFileName(const Format& format, const Timeline& timeline,
                            StackWeight metric = StackWeight::kSelfCpuTime);

// A file of a format.
struct FormatFile {
  std::string name;
  std::optional<int> rank = std::nullopt;  // ExportInput::rank
};

// Returns the files that a format gives in a directory: one. A trace also has one for each rank,
// where several were recorded, as tools that compare ranks want them: trace_rankN.json.gz beside
// the whole; TensorBoard's has one for each worker with its PID, instead of the whole. `of_rank`:
// the recording holds that rank alone, and is to be called so.
std::vector<FormatFile> FilesOf(const Format& format, const Timeline& timeline,
                                StackWeight metric = StackWeight::kSelfCpuTime,
                                std::optional<int> of_rank = std::nullopt);

// Writes `name` into `directory`, gzip-compressed when it ends in ".gz"; whole, or not at all. The
// files of a folder: each whole, or not at all.
absl::Status Export(const Format& format, const ExportInput& input,
                    const OutputDirectory& directory, const std::string& name);

}  // namespace proftrace
