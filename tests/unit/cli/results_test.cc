#include "userspace/cli/results.h"

#include <gtest/gtest.h>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

TEST(ResultsTest, AllThatCouldNotBeWrittenIsNamedAndHowToMakeIt) {
  WrittenResults written;
  written.names = {"key_averages.txt"};
  EXPECT_TRUE(CheckWritten(written, "r").ok());
  written.missing = {"trace.json.gz"};
  written.missing_formats = {"chrome"};
  written.first_error =
      Fail(ExitCode::kOutputFailed, "cannot write r/trace.json.gz: full; choose another place");
  EXPECT_EQ(CheckWritten(written, "r").message(),
            "cannot write r/trace.json.gz: full; the capture is whole: 'proftrace export r "
            "--format chrome -o ELSEWHERE' makes what is missing");
  written.missing = {"trace.json.gz", "trace_rank0.json.gz", "events.csv"};
  written.missing_formats = {"chrome", "events-csv"};
  const absl::Status status = CheckWritten(written, "r");
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kOutputFailed);
  EXPECT_EQ(status.message(),
            "cannot write r/trace.json.gz: full, nor trace_rank0.json.gz, events.csv; the capture "
            "is whole: 'proftrace export r --format chrome,events-csv -o ELSEWHERE' makes what is "
            "missing");
}

}  // namespace
}  // namespace proftrace
