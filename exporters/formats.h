// The output formats of a recording, by the names that --format takes.
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

// An earlier recording, with which the recording to export is compared.
struct Comparison {
  RecordingWords before;
  StackDiff diff;
};

struct ExportInput {
  const Timeline& timeline;
  const Aggregates& aggregates;
  const TableOptions& table;
  std::optional<int> rank = std::nullopt;  // for traces: only processes of this rank; nullopt: all
  // For formats that show stacks: the weight that they show, or show first.
  StackWeight metric = StackWeight::kSelfCpuTime;
  const Comparison* comparison = nullptr;  // only for formats with `compares`
  // For memory timelines: the device, as in ExportMemoryTimeline().
  std::string memory_device = {};
  CsvText csv_text = CsvText::kForSpreadsheets;
  // The directory whose OpenScratch() gives room for temporary files. Export() fills it in.
  const OutputDirectory* directory = nullptr;
};

enum class FormatNeeds {
  kNothing,
  kMemory,
  kDevice,   // a GPU agent
  kModules,  // nn.Modules
  kSamples,
  kDataWaits,
  kSystemCalls,  // at least those that do I/O
};

struct Format {
  std::string_view name;  // as in --format
  // The file's name in the result directory, or that of the folder where there is `write_folder`.
  // Empty: DefaultFileName() makes the name.
  std::string_view file_name;
  std::string_view opens_with;  // one sentence for users
  absl::Status (*write)(const ExportInput&, ByteSink&);
  FormatNeeds needs = FormatNeeds::kNothing;  // the format fails where this was not recorded
  bool compares = false;                      // the format shows ExportInput::comparison
  // Formats that are a folder of files have this instead of `write`. It writes the folder with the
  // given name into the directory.
  absl::Status (*write_folder)(const ExportInput&, const OutputDirectory&,
                               const std::string&) = nullptr;
};

bool IsRecorded(FormatNeeds needs, const Timeline& timeline);

// Returns the formats in the order in which they are listed to users.
const std::vector<Format>& Formats();

// Returns the ranks of a recording, ascending, if it holds several.
std::vector<int> SeveralRanks(const Timeline& timeline);

// Finds a format by its name. Fails with ExitCode::kUsage and the list of valid names.
absl::StatusOr<const Format*> FindFormat(std::string_view name);

// Parses a list such as "table,csv,chrome" into formats, in the given order and each once. "none"
// gives no format; an empty name fails.
absl::StatusOr<std::vector<const Format*>> ParseFormatList(std::string_view list);

// Returns the file's name in the result directory. TensorBoard's is
// HOST_PID.TIME_NS.pt.trace.json.gz; folded stacks have the name of their weight's file.
std::string DefaultFileName(const Format& format, const Timeline& timeline,
                            StackWeight metric = StackWeight::kSelfCpuTime);

// A file of a format.
struct FormatFile {
  std::string name;
  std::optional<int> rank = std::nullopt;  // ExportInput::rank
};

// Returns the files that a format writes into a directory, usually one. Where several ranks were
// recorded, a trace has one more file for each rank, trace_rankN.json.gz, for tools that compare
// ranks. TensorBoard's format has one file for each worker, with the worker's PID, instead of one
// for all. `of_rank`: the recording holds this rank alone, and its files are named by it.
std::vector<FormatFile> FilesOf(const Format& format, const Timeline& timeline,
                                StackWeight metric = StackWeight::kSelfCpuTime,
                                std::optional<int> of_rank = std::nullopt);

// Writes the file `name` into `directory`, gzip-compressed where the name ends in ".gz". The file
// appears whole or not at all; this is true of each file of a folder.
absl::Status Export(const Format& format, const ExportInput& input,
                    const OutputDirectory& directory, const std::string& name);

}  // namespace proftrace
