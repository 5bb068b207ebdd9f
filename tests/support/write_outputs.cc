// Writes every output of a made-up recording into a directory: for checks that read our files with
// other programs.
//   write_outputs DIR training SPANS
//   write_outputs DIR python SEED     stacks of a Python program
//   write_outputs DIR calls SEED      the same, and system calls
//   write_outputs DIR many PATHS      that many call paths
//   write_outputs DIR random SEED     all that a tree can have: filtered, async, overlapping,
//   truncated, same names
#include <cstdint>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "exporters/args/recording_json.h"
#include "exporters/formats.h"
#include "tests/support/python_program.h"
#include "tests/support/report_job.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/python_text.h"

namespace proftrace {
namespace {

constexpr int kThreads = 3;
constexpr int kEventsEach = 400;
constexpr int64_t kStartNs = 5'000'000'000;

// Nested calls at random, with times that never repeat on a thread.
std::unique_ptr<Timeline> MakeRandomTimeline(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  TimelineMaker maker;
  std::vector<LabelId> labels = {
      maker.AddOperator("aten::add", "Tensor"),
      maker.AddOperator("aten::add", "Scalar"),
      maker.AddOperator("aten::a"),
      maker.AddOperator("aten::a_rather_long_operator_name_that_does_not_fit_the_column"),
      maker.AddOperator("aten::is_leaf"),
      maker.AddOperator("profiler::_record_function_enter_new"),
      maker.AddOperator("_ZN2at3addE"),
      maker.AddOperator("Größe::π"),
      maker.AddAnnotation("aten::add"),
      maker.AddAnnotation("ProfilerStep#" + std::to_string(seed)),
      maker.AddAnnotation("ProfilerStep#7"),
      maker.AddAnnotation("</script> \"q\", 'x'; y"),
  };
  int64_t now_ns = kStartNs;
  const auto tick = [&] { return now_ns += 1 + below(below(20) == 0 ? 3'000'000 : 9'000); };
  for (uint32_t i = 0; i < kThreads; ++i) {
    const ThreadIndex thread = maker.AddThread(100 + i / 2, 200 + i, "python3");
    std::vector<SpanId> open;
    for (int event = 0; event < kEventsEach; ++event) {
      const bool repeats = !open.empty() && below(3) == 0;
      if (open.empty() || (open.size() < 9 && below(2) == 0)) {
        static LabelId last{};
        const LabelId label = repeats ? last : labels[below(static_cast<uint32_t>(labels.size()))];
        last = label;
        open.push_back(maker.Begin(thread, label, tick()));
        if (below(25) == 0) maker.MarkAsync(open.back());
        static const std::string kShapes[] = {
            "[[3, 4], []]", "[[]]",
            "[[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, "
            "16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]"};
        if (below(2) == 0 && !maker.SetShapes(open.back(), kShapes[below(3)]).ok()) return nullptr;
      } else if (open.size() > 1 && below(12) == 0) {
        const size_t outer = open.size() - 2;
        maker.EndOuter(thread, open[outer], tick());
        open.erase(open.begin() + static_cast<ptrdiff_t>(outer));
      } else {
        open.pop_back();
        maker.End(thread, tick(), below(15) == 0 ? SpanEnd::kException : SpanEnd::kReturn);
      }
    }
    for (; !open.empty(); open.pop_back()) maker.End(thread, tick());
  }
  maker.info().window.duration_ns = now_ns - kStartNs;
  return maker.Finish();
}

std::unique_ptr<Timeline> MakeDeepTimeline(uint32_t depth) {
  TimelineMaker maker;
  const ThreadIndex thread = maker.AddThread(100, 100, "python3");
  for (uint32_t i = 0; i < depth; ++i) {
    maker.Begin(thread, maker.AddOperator("level " + std::to_string(i)), kStartNs + i);
  }
  for (uint32_t i = 0; i < depth; ++i) maker.End(thread, kStartNs + 1'000'000 + i);
  return maker.Finish();
}

// About `paths` call paths, each of some functions of a thousand, one with a name of 4 KB.
std::unique_ptr<Timeline> MakeManyPaths(uint32_t paths) {
  std::mt19937 random(1);
  TimelineMaker maker;
  const ThreadIndex thread = maker.AddThread(100, 100, "python3");
  std::string long_name = "Größe<&\"'>";
  while (long_name.size() < 4096) long_name += "::of_a_template<float>";
  std::vector<LabelId> labels = {maker.AddOperator(long_name)};
  while (labels.size() < 1000) {
    labels.push_back(maker.AddOperator("function_" + std::to_string(labels.size())));
  }
  int64_t now_ns = kStartNs;
  uint32_t depth = 0;
  for (uint32_t i = 0; i < paths; ++i) {
    for (; depth > random() % 30; --depth) maker.End(thread, now_ns += 100);
    maker.Begin(thread, labels[random() % labels.size()], now_ns += 100);
    ++depth;
  }
  for (; depth > 0; --depth) maker.End(thread, now_ns += 100);
  maker.info().window.duration_ns = now_ns - kStartNs;
  return maker.Finish();
}

std::unique_ptr<Timeline> MakeTimeline(const std::string& kind, uint32_t number) {
  if (kind == "training") return MakeTrainingTimeline(number, 2);
  if (kind == "random") return MakeRandomTimeline(number);
  if (kind == "deep") return MakeDeepTimeline(number);
  if (kind == "many") return MakeManyPaths(number);
  if (kind == "python") return MakePythonTimeline(number, 2'000);
  if (kind == "report") return MakeReportJob(number);
  if (kind == "empty") return TimelineMaker().Finish();
  if (kind == "calls") return MakePythonTimeline(number, 2'000, /*makes_calls=*/true);
  return nullptr;
}

// A table in one of the ways that the oracle compares.
struct TableCase {
  std::string file;
  bool by_overload = false;
  TableOptions options = {};
  bool by_shape = false;
  uint32_t by_stack = 0;
};

constexpr uint32_t kMostFrames = 3;

std::vector<TableCase> TableCases(uint32_t seed) {
  std::vector<TableCase> cases = {{"key_averages.txt", false, {}},
                                  {"table_overload.txt", true, {}},
                                  {"table_shapes.txt", false, {}, true}};
  std::vector<std::string> keys = TableSortKeys();
  // torch does not have these keys.
  std::erase_if(keys, [](const std::string& key) {
    return key == "self_on_cpu_time" || key == "self_off_cpu_time" || key == "syscalls" ||
           key == "page_faults";
  });
  for (const std::string& key : std::vector<std::string>(keys)) {
    const size_t at = key.find("device");
    if (at == std::string::npos) continue;
    for (const char* device : {"cuda", "xpu", "privateuse1"}) {
      keys.push_back(std::string(key).replace(at, 6, device));
    }
  }
  for (const std::string& key : keys) {
    cases.push_back({"table_sort_" + key + ".txt", false, {.sort_by = key, .row_limit = 5}});
  }
  cases.push_back({"table_top_level.txt", false, {.top_level_events_only = true}});
  std::mt19937 random(seed);
  const auto one_of = [&random](const auto& values) {
    return values[random() % std::size(values)];
  };
  keys.emplace_back();
  for (int i = 0; i < 24; ++i) {
    TableCase other;
    other.file = "table_random_" + std::to_string(i) + ".txt";
    other.by_overload = random() % 2 == 0;
    other.by_shape = random() % 2 == 0;
    other.by_stack = static_cast<uint32_t>(random() % (kMostFrames + 1));
    other.options.sort_by = one_of(keys);
    other.options.row_limit = one_of(std::vector<int64_t>{-1, 0, 1, 3, 100});
    other.options.max_name_column_width =
        one_of(std::vector<std::optional<int>>{std::nullopt, 4, 9, 20, 55, 300});
    other.options.max_shapes_column_width =
        one_of(std::vector<std::optional<int>>{std::nullopt, 1, 12, 80, 300});
    other.options.max_src_column_width =
        one_of(std::vector<std::optional<int>>{std::nullopt, 1, 3, 4, 30, 75, 300});
    other.options.header = one_of(std::vector<std::string>{"", "A header", "π = 3"});
    other.options.top_level_events_only = random() % 2 == 0;
    other.options.time_unit = one_of(std::vector<TimeUnit>{
        TimeUnit::kAuto, TimeUnit::kSeconds, TimeUnit::kMilliseconds, TimeUnit::kMicroseconds});
    cases.push_back(other);
  }
  return cases;
}

// As the keyword arguments of torch's key_averages() and table().
OrderedJson CaseJson(const TableCase& table) {
  const TableOptions& options = table.options;
  OrderedJson layout = {{"row_limit", options.row_limit},
                        {"top_level_events_only", options.top_level_events_only}};
  layout["sort_by"] = TextOrNull(options.sort_by);
  layout["header"] = TextOrNull(options.header);
  const auto add_width = [&layout](const char* name, std::optional<int> width) {
    layout[name] = width.has_value() ? OrderedJson(*width) : OrderedJson(nullptr);
  };
  add_width("max_name_column_width", options.max_name_column_width);
  add_width("max_shapes_column_width", options.max_shapes_column_width);
  add_width("max_src_column_width", options.max_src_column_width);
  constexpr const char* kUnits[] = {nullptr, "s", "ms", "us"};
  const char* unit = kUnits[static_cast<size_t>(options.time_unit)];
  layout["time_unit"] = unit == nullptr ? OrderedJson(nullptr) : OrderedJson(unit);
  return {{"file", table.file},
          {"key_averages",
           {{"group_by_overload_name", table.by_overload},
            {"group_by_input_shapes", table.by_shape},
            {"group_by_stack_n", table.by_stack}}},
          {"table", std::move(layout)}};
}

// Returns the names of each span's frames, the innermost first.
OrderedJson StacksJson(const Timeline& timeline) {
  OrderedJson stacks = OrderedJson::array();
  for (uint32_t id = 0; id < timeline.span_count(); ++id) {
    OrderedJson& stack = stacks.emplace_back(OrderedJson::array());
    for (StackId at = timeline.stack_of(SpanId{id}); at != kNoStack;
         at = timeline.python_frame(at).parent) {
      stack.push_back(PythonFrameText(timeline, at));
    }
  }
  return stacks;
}

absl::Status WriteJsonFile(const OrderedJson& json, const OutputDirectory& directory,
                           const std::string& name) {
  const absl::StatusOr<std::unique_ptr<ByteSink>> sink = directory.Create(name);
  if (!sink.ok()) return sink.status();
  if (absl::Status status = WriteJson(json, **sink); !status.ok()) return status;
  return (*sink)->Finish();
}

int Run(int argc, char** argv) {
  std::unique_ptr<Timeline> timeline;
  if (argc == 4) timeline = MakeTimeline(argv[2], static_cast<uint32_t>(std::stoul(argv[3])));
  if (timeline == nullptr) {
    std::cerr << "usage: write_outputs DIR training|random|deep|many|python|report|empty NUMBER\n";
    return 2;
  }
  const absl::StatusOr<OutputDirectory> directory = OutputDirectory::Open(argv[1]);
  absl::Status status = directory.status();
  const Aggregates aggregates = Aggregate(*timeline, {});
  const TableOptions table;
  for (const Format& format : Formats()) {
    if (!status.ok()) break;
    if (!IsRecorded(format.needs, *timeline)) continue;
    status = Export(format, {*timeline, aggregates, table}, *directory,
                    DefaultFileName(format, *timeline));
  }
  Aggregates grouped[2][2][kMostFrames + 1];  // by overload name, by shapes, by stack
  for (const bool by_overload : {false, true}) {
    for (const bool by_shape : {false, true}) {
      for (uint32_t by_stack = 0; by_stack <= kMostFrames; ++by_stack) {
        grouped[by_overload][by_shape][by_stack] =
            Aggregate(*timeline, {.key_averages = {.group_by_overload_name = by_overload,
                                                   .group_by_input_shape = by_shape,
                                                   .group_by_stack_n = by_stack}});
      }
    }
  }
  const Format& text = **FindFormat("table");
  OrderedJson cases = OrderedJson::array();
  for (const TableCase& one : TableCases(static_cast<uint32_t>(std::stoul(argv[3])))) {
    cases.push_back(CaseJson(one));
    if (!status.ok()) break;
    status =
        Export(text, {*timeline, grouped[one.by_overload][one.by_shape][one.by_stack], one.options},
               *directory, one.file);
  }
  if (status.ok()) status = WriteJsonFile(cases, *directory, "tables.json");
  if (status.ok()) status = WriteJsonFile(StacksJson(*timeline), *directory, "stacks.json");
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) { return proftrace::Run(argc, argv); }
