// Rates of the aggregators and exporters on one core, in spans a second, and the memory that they
// need beside the Timeline. Outputs are formatted, compressed and thrown away: the disk is not
// measured.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <fstream>
#include <memory>
#include <string>

#include "exporters/sinks/gzip_sink.h"
#include "exporters/stacks/flamegraph_html.h"
#include "exporters/stacks/folded.h"
#include "exporters/tables/csv.h"
#include "exporters/text/table.h"
#include "exporters/traces/chrome_trace.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"

namespace proftrace {
namespace {

constexpr uint32_t kSpans = 1'000'000;

const Timeline& Training() {
  static const Timeline& timeline = *MakeTrainingTimeline(kSpans, 2).release();
  return timeline;
}

class NullSink : public ByteSink {
 public:
  explicit NullSink(uint64_t* bytes) : bytes_(bytes) {}
  absl::Status Write(std::string_view bytes) override {
    *bytes_ += bytes.size();
    benchmark::DoNotOptimize(bytes.data());
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  uint64_t* bytes_;
};

// VmRSS and its peak (VmHWM), KiB.
int64_t MemoryKib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stoll(line.substr(field.size() + 1));
  }
  return 0;
}

// Runs `write` on a fresh sink each time, and reports spans/s, bytes a span and the growth of the
// resident set.
template <typename Write>
void Measure(benchmark::State& state, bool gzip, Write&& write) {
  const Timeline& timeline = Training();
  std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM starts again from here
  const int64_t before_kib = MemoryKib("VmRSS:");
  uint64_t bytes = 0;
  for (auto _ : state) {
    bytes = 0;
    std::unique_ptr<ByteSink> sink = std::make_unique<NullSink>(&bytes);
    if (gzip) sink = NewGzipSink(std::move(sink));
    absl::Status status = write(timeline, *sink);
    if (status.ok()) status = sink->Finish();
    if (!status.ok()) state.SkipWithError(status.ToString().c_str());
  }
  const auto spans = static_cast<int64_t>(timeline.span_count());
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * spans);
  state.counters["bytes_per_span"] = static_cast<double>(bytes) / static_cast<double>(spans);
  state.counters["extra_MB"] = static_cast<double>(MemoryKib("VmHWM:") - before_kib) / 1024.0;
}

void BM_KeyAveragesTable(benchmark::State& state) {
  Measure(state, false, [](const Timeline& timeline, ByteSink& sink) {
    return ExportTable(timeline, Aggregate(timeline, {}), {}, sink);
  });
}
BENCHMARK(BM_KeyAveragesTable)->Unit(benchmark::kMillisecond);

void BM_Folded(benchmark::State& state) {
  Measure(state, false, [](const Timeline& timeline, ByteSink& sink) {
    FoldedStacks stacks;
    SpanCounts counts;
    BuildFoldedStacks(timeline, &stacks, &counts);
    return ExportFolded(stacks, StackWeight::kSelfCpuTime, sink);
  });
}
BENCHMARK(BM_Folded)->Unit(benchmark::kMillisecond);

void BM_EventsCsv(benchmark::State& state) {
  Measure(state, state.range(0) != 0, [](const Timeline& timeline, ByteSink& sink) {
    return ExportEventsCsv(timeline, FindSteps(timeline), {}, sink);
  });
}
BENCHMARK(BM_EventsCsv)->ArgName("gzip")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void BM_ChromeTrace(benchmark::State& state) {
  Measure(state, state.range(0) != 0, [](const Timeline& timeline, ByteSink& sink) {
    return ExportChromeTrace(timeline, sink);
  });
}
BENCHMARK(BM_ChromeTrace)->ArgName("gzip")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace proftrace

BENCHMARK_MAIN();
