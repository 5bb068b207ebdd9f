#include "userspace/fleet/kineto_directory.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/json_writer.h"
#include "exporters/sinks/text_writer.h"
#include "userspace/base/dumped_json.h"
#include "userspace/fleet/chrome_event.h"

namespace proftrace {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The merge writes these keys itself, in place of the input's.
constexpr std::string_view kMergedKeys[] = {"baseTimeNanoseconds", "traceEvents",
                                            "proftrace_clock",     "displayTimeUnit",
                                            "distributedInfo",     "schemaVersion"};

// Returns distributedInfo as text. There is a blank after each colon, because HTA finds the rank by
// a regular expression that needs it.
std::string DistributedText(const OrderedJson& head, const MergePart& part) {
  OrderedJson info = OrderedJson::object();
  if (const auto it = head.find("distributedInfo"); it != head.end() && it->is_object()) info = *it;
  if (part.rank) info["rank"] = *part.rank;
  if (part.world_size && !info.contains("world_size")) info["world_size"] = *part.world_size;
  JsonText json{StringText()};
  json.BeginObject();
  for (const auto& [key, value] : info.items()) json.Key(JsonEscaped(key)).Raw(DumpedJson(value));
  json.EndObject();
  return json.Done().Take();
}

class KinetoDirectory : public MergeWriter {
 public:
  explicit KinetoDirectory(const OutputDirectory& directory) : directory_(directory) {}

  absl::Status Begin(const MergeHead& head) override {
    head_ = head;
    return absl::OkStatus();
  }

  absl::Status BeginPart(const MergePart& part) override {
    if (!part.is_main || part.facts == nullptr || !part.rank) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<ByteSink>> sink =
        directory_.Create("rank" + std::to_string(*part.rank) + ".json.gz");
    if (!sink.ok()) return sink.status();
    sink_ = *std::move(sink);
    writer_.emplace(*sink_);
    json_.emplace(*writer_);
    WriteHead(part);
    return absl::OkStatus();
  }

  absl::Status Event(const SourceEvent& event, uint64_t link, bool* is_written) override {
    *is_written = writer_.has_value() && link == 0;
    if (!*is_written) return absl::OkStatus();
    WriteChromeEvent({event, event.pid, event.tid, head_.base_ns, std::nullopt}, &json_->Line());
    return writer_->ok() ? absl::OkStatus() : writer_->Flush();
  }

  absl::Status EndPart() override {
    if (!writer_) return absl::OkStatus();
    json_->EndLine();
    json_->EndArray();
    json_->EndLine();
    json_->EndObject();
    json_->EndLine();
    absl::Status status = json_->Done().Flush();
    json_.reset();
    writer_.reset();
    if (status.ok()) status = sink_->Finish();
    sink_.reset();
    return status;
  }

  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  void WriteHead(const MergePart& part) {
    OrderedJson head = OrderedJson::parse("{" + part.facts->head + "}", nullptr, false);
    if (!head.is_object()) head = OrderedJson::object();
    json_->BeginObject();
    json_->Line().Key("schemaVersion").Integer(1);
    json_->Line().Key("distributedInfo").Raw(DistributedText(head, part));
    for (const auto& [key, value] : head.items()) {
      if (std::find(std::begin(kMergedKeys), std::end(kMergedKeys), key) != std::end(kMergedKeys)) {
        continue;
      }
      json_->Line().Key(JsonEscaped(key)).Raw(DumpedJson(value));
    }
    json_->Line().Key("proftrace_clock").Raw(head_.clock);
    json_->Line().Key("displayTimeUnit").Word("ms");
    json_->Line().Key("baseTimeNanoseconds").Integer(head_.base_ns);
    json_->Line().Key("traceEvents").BeginArray();
  }

  const OutputDirectory& directory_;
  MergeHead head_;
  std::unique_ptr<ByteSink> sink_;
  std::optional<TextWriter> writer_;
  std::optional<JsonStream> json_;  // writes into writer_
};

}  // namespace

std::unique_ptr<MergeWriter> NewKinetoDirectory(const OutputDirectory& directory) {
  return std::make_unique<KinetoDirectory>(directory);
}

}  // namespace proftrace
