#include "exporters/stacks/pprof.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <string>
#include <vector>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/protobuf.h"
#include "exporters/sinks/text_writer.h"

namespace proftrace {
namespace {

// Numbers of fields in profile.proto.
enum ProfileField : uint32_t {
  kSampleType = 1,
  kSample = 2,
  kLocation = 4,
  kFunction = 5,
  kStringTable = 6,
  kTimeNanos = 9,
  kDurationNanos = 10,
  kDefaultSampleType = 14,
};
enum ValueTypeField : uint32_t { kTypeName = 1, kUnitName = 2 };
enum SampleField : uint32_t { kLocationIds = 1, kValues = 2 };
enum LocationField : uint32_t { kLocationId = 1, kLine = 4 };
enum LineField : uint32_t { kLineFunctionId = 1, kLineNumber = 2 };
enum FunctionField : uint32_t {
  kFunctionId = 1,
  kName = 2,
  kSystemName = 3,
  kFilename = 4,
  kStartLine = 5,
};

class PprofWriter {
 public:
  PprofWriter(const Timeline& timeline, const FoldedStacks& stacks, StackWeight first,
              ByteSink& sink)
      : timeline_(timeline), stacks_(stacks), first_(first), writer_(sink) {}

  absl::Status Run() {
    StringNumber("");
    for (const StackValues& values : stacks_.values) WriteValueType(InfoOf(values.weight));
    for (uint32_t node = 1; node < stacks_.nodes.size() && writer_.ok(); ++node) WriteSample(node);
    for (uint32_t frame = 0; frame < stacks_.frames.size(); ++frame) WriteFrame(frame);
    const Window& window = timeline_.info().window;
    ProtobufMessage rest;
    rest.Number(kTimeNanos, timeline_.ToUnixNs(window.start_ns));
    rest.Number(kDurationNanos, std::max<int64_t>(window.duration_ns, 0));
    rest.Number(kDefaultSampleType, StringNumber(std::string(InfoOf(first_).pprof_type)));
    for (const std::string& text : strings_) rest.Bytes(kStringTable, text);
    writer_.Text(rest.bytes());
    return writer_.Flush();
  }

 private:
  int64_t StringNumber(const std::string& text) {
    const auto [it, inserted] =
        string_numbers_.try_emplace(ToValidUtf8(text), static_cast<int64_t>(strings_.size()));
    if (inserted) strings_.push_back(it->first);
    return it->second;
  }

  void Write(uint32_t field, const ProtobufMessage& message) {
    ProtobufMessage framed;
    framed.Bytes(field, message.bytes());
    writer_.Text(framed.bytes());
  }

  void WriteValueType(const StackWeightInfo& info) {
    ProtobufMessage message;
    message.Number(kTypeName, StringNumber(std::string(info.pprof_type)));
    message.Number(kUnitName, StringNumber(info.unit == StackUnit::kNanoseconds ? "nanoseconds"
                                           : info.unit == StackUnit::kBytes     ? "bytes"
                                                                                : "count"));
    Write(kSampleType, message);
  }

  void WriteSample(uint32_t node) {
    std::vector<int64_t> sums;
    for (const StackValues& values : stacks_.values) sums.push_back(values.self[node]);
    if (std::all_of(sums.begin(), sums.end(), [](int64_t sum) { return sum == 0; })) return;
    std::vector<int64_t> locations;  // the innermost first
    for (const uint32_t at : PathOf(stacks_, node)) {
      locations.push_back(stacks_.nodes[at].frame + int64_t{1});
    }
    ProtobufMessage message;
    message.Packed(kLocationIds, locations);
    message.Packed(kValues, sums);
    Write(kSample, message);
  }

  // Writes a location and a function, which have the same number, from 1 on.
  void WriteFrame(uint32_t frame) {
    const int64_t number = frame + int64_t{1};
    const StackFrame& shown = stacks_.frames[frame];
    ProtobufMessage function;
    function.Number(kFunctionId, number);
    function.Number(kName, StringNumber(shown.name));
    function.Number(kSystemName, StringNumber(shown.name));
    ProtobufMessage line;
    line.Number(kLineFunctionId, number);
    if (!shown.file.empty()) {
      function.Number(kFilename, StringNumber(shown.file));
      function.Number(kStartLine, shown.line);
      line.Number(kLineNumber, shown.line);
    }
    Write(kFunction, function);
    ProtobufMessage location;
    location.Number(kLocationId, number);
    location.Bytes(kLine, line.bytes());
    Write(kLocation, location);
  }

  const Timeline& timeline_;
  const FoldedStacks& stacks_;
  StackWeight first_;
  TextWriter writer_;
  absl::flat_hash_map<std::string, int64_t> string_numbers_;
  std::vector<std::string> strings_;
};

}  // namespace

absl::Status ExportPprof(const Timeline& timeline, const FoldedStacks& stacks, StackWeight first,
                         ByteSink& sink) {
  const absl::StatusOr<const StackValues*> values = RecordedValues(stacks, first);
  if (!values.ok()) return values.status();
  return PprofWriter(timeline, stacks, first, sink).Run();
}

}  // namespace proftrace
