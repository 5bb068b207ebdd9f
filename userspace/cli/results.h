// Makes a user's results from a capture, for record, report and export alike.
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
  std::string damage;  // the damage of the capture; empty where it is whole
};

struct WrittenResults {
  std::vector<std::string> names;    // names of the written files, in order
  std::vector<std::string> missing;  // names of the files that could not be written
  std::vector<std::string> missing_formats;
  absl::Status first_error;
};

// Reads `capture` (a file or a result directory) to the end. `salvage`: whether the whole part of a
// damaged capture is read. `processes`: the processes that are read. Fails as ChoosePids() and
// OfCapture() do.
absl::StatusOr<Results> LoadResults(const std::string& capture, bool salvage,
                                    const AggregateOptions& options,
                                    const ProcessChoice& processes = {});

// Reads the capture of `reader` to the end; `spill_directory` as AggregateOptions has it.
absl::StatusOr<Results> LoadResults(CaptureReader* reader, const std::string& spill_directory,
                                    const AggregateOptions& options,
                                    const ProcessChoice& processes = {});

// Changes an error about data that a damaged capture does not have, because the lost part may have
// had it: kUsage becomes kInputDamaged, with the damage and without the advice on how to record.
// Any other status is returned as it is.
absl::Status OfCapture(const absl::Status& status, const std::string& capture,
                       const std::string& damage);

// Writes `formats` and summary.json into `directory`. Where one file cannot be written, the others
// still are.
absl::StatusOr<WrittenResults> WriteResults(const Results& results,
                                            const std::vector<const Format*>& formats,
                                            const TableOptions& table,
                                            const OutputDirectory& directory);

// Returns an error with the files that could not be written, and with the command that makes them
// from `capture`, which is whole; ok where all files were written.
absl::Status CheckWritten(const WrittenResults& written, const std::string& capture);

// Returns a sentence for each of `formats` that is not written because the recording lacks its
// data.
std::vector<std::string> WhyNotWritten(const Results& results,
                                       const std::vector<const Format*>& formats,
                                       const TableOptions& table);

// Prints the table and its footer on standard output. It is no error where the reader closes the
// pipe early.
absl::Status PrintTable(const Results& results, const TableOptions& table, bool json);

// Prints the verdict on standard output: what makes the job's steps take so long.
absl::Status PrintVerdict(const Results& results, bool json);
// Prints the differences from `before`, an earlier run of the same job, on standard output. Fails
// with kUsage where one of the recordings has nothing to compare.
absl::Status PrintComparison(const Results& before, const Results& after, int64_t row_limit,
                             bool json);
absl::Status PrintText(const std::string& whole, bool json);

}  // namespace proftrace
