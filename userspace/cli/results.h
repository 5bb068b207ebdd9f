// Leads from a capture to what the user gets: the way that record, report and export share.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "exporters/formats.h"
#include "exporters/sinks/output_file.h"
#include "exporters/text/table.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"
#include "userspace/pipeline/process_choice.h"
#include "userspace/wire/capture_reader.h"

namespace proftrace {

struct Results {
  std::unique_ptr<Timeline> timeline;
  Aggregates aggregates;
  std::string damage;  // of the capture; empty when it is whole
};

struct WrittenResults {
  std::vector<std::string> names;    // of the files, in order
  std::vector<std::string> missing;  // of those that could not be written
  std::vector<std::string> missing_formats;
  absl::Status first_error;
};

// Reads `capture` (a file or a result directory) to the end. `salvage`: what is whole of a damaged
// one. `processes`: what is read of; fails as ChoosePids(), OfCapture().
absl::StatusOr<Results> LoadResults(const std::string& capture, bool salvage,
                                    const AggregateOptions& options,
                                    const ProcessChoice& processes = {});

// Reads the capture of `reader` to the end; `spill_directory` as AggregateOptions has it.
absl::StatusOr<Results> LoadResults(CaptureReader* reader, const std::string& spill_directory,
                                    const AggregateOptions& options,
                                    const ProcessChoice& processes = {});

// Says that what is not in a damaged capture may have been in it: kUsage becomes kInputDamaged,
// with the damage and without what to record with. Anything else is given back as it is.
absl::Status OfCapture(const absl::Status& status, const std::string& capture,
                       const std::string& damage);

// Writes `formats` and summary.json into `directory`. Where one cannot be written the others are.
absl::StatusOr<WrittenResults> WriteResults(const Results& results,
                                            const std::vector<const Format*>& formats,
                                            const TableOptions& table,
                                            const OutputDirectory& directory);

// Says what could not be written, and how it can be had of `capture`, which is whole; ok where all
// was.
absl::Status CheckWritten(const WrittenResults& written, const std::string& capture);

// Says why those of `formats` are not written that need what is not in the recording: one sentence
// each.
std::vector<std::string> WhyNotWritten(const Results& results,
                                       const std::vector<const Format*>& formats,
                                       const TableOptions& table);

// Prints the table and its footer on standard output. A pipe that nobody reads any more is no
// error.
absl::Status PrintTable(const Results& results, const TableOptions& table, bool json);

// Prints what makes the job's steps take so long on standard output.
absl::Status PrintVerdict(const Results& results, bool json);
// Prints what differs from `before`, of the same processes of an earlier run, on standard output.
// Fails with kUsage where one of the recordings has nothing to compare.
absl::Status PrintComparison(const Results& before, const Results& after, int64_t row_limit,
                             bool json);
absl::Status PrintText(const std::string& whole, bool json);

}  // namespace proftrace
