#include "userspace/fleet_sources/json_source.h"

#include <optional>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/fleet_sources/byte_source.h"
#include "userspace/fleet_sources/json_splitter.h"
#include "userspace/fleet_sources/trace_facts.h"

namespace proftrace {
namespace {

class JsonSource final : public SourceInput {
 public:
  JsonSource(const std::string& path, bool has_events_alone, bool is_dftracer, bool salvage,
             SourceObserver* observer)
      : observer_(observer),
        layout_(has_events_alone ? JsonSplitter::Layout::kEvents : JsonSplitter::Layout::kNotKnown),
        salvage_(salvage) {
    facts_.path = path;
    facts_.kind = is_dftracer ? SourceKind::kDftracer : SourceKind::kKineto;
  }

  absl::Status ReadFacts() {
    if (absl::Status status = ReadFactsOnce(); !status.ok()) return status;
    // The row that tells the unit of time may stand behind events that were read with another unit.
    if (unit_ns_ != unit_of_reading_ns_) return ReadFactsOnce();
    return absl::OkStatus();
  }

  const SourceFacts& facts() const override { return facts_; }

  absl::Status ForEachEvent(const std::function<absl::Status(const SourceEvent&)>& take) override {
    std::optional<TraceEvents> events;
    absl::Status taken;
    const auto take_one = [&](const SourceEvent& event) { return taken = take(event); };
    JsonSplitter splitter(
        facts_.path, layout_,
        {[](std::string_view, std::string_view, uint64_t) { return absl::OkStatus(); },
         [&](std::string_view text, uint64_t offset) {
           return events->Read(text, offset, take_one);
         }});
    events.emplace(&splitter, TraceTimes{unit_ns_, base_ns_});
    const absl::Status status = Split(&splitter, nullptr);
    return taken.ok() ? status : taken;
  }

 private:
  absl::Status ReadFactsOnce() {
    unit_of_reading_ns_ = unit_ns_;
    facts_.remarks.clear();
    facts_.groups.clear();
    facts_.group_descriptions.clear();
    facts_.calls.clear();
    facts_.calls_without_group.clear();
    if (observer_ != nullptr) observer_->Begin();
    TraceFacts collected;
    std::optional<TraceEvents> events;
    JsonSplitter splitter(facts_.path, layout_,
                          {[&](std::string_view key, std::string_view value, uint64_t) {
                             collected.TakeMember(key, value);
                             return absl::OkStatus();
                           },
                           [&](std::string_view text, uint64_t offset) {
                             return events->Read(text, offset, [&](const SourceEvent& event) {
                               collected.TakeEvent(event);
                               if (observer_ != nullptr) observer_->See(event);
                               return absl::OkStatus();
                             });
                           }});
    events.emplace(&splitter, TraceTimes{unit_ns_, 0});
    bool is_cut = false;
    if (absl::Status status = Split(&splitter, &is_cut); !status.ok()) return status;
    unit_ns_ = collected.unit_ns().value_or(unit_ns_);
    base_ns_ = collected.base_ns().value_or(0);
    facts_.base_ns = base_ns_;
    collected.Finish(is_cut, &facts_);
    events->AddRemarks(&facts_.remarks);
    return absl::OkStatus();
  }

  // Reads the file to its end. `is_cut`: where it is not null, also notes what is missing.
  absl::Status Split(JsonSplitter* splitter, bool* is_cut) {
    absl::StatusOr<std::unique_ptr<ByteSource>> bytes = OpenByteSource(facts_.path);
    if (!bytes.ok()) return bytes.status();
    const absl::Status status = SplitAll(splitter, bytes->get());
    if (!status.ok()) {
      if (!salvage_ || ExitCodeOf(status) != ExitCode::kInputDamaged) return status;
      if (is_cut != nullptr) {
        *is_cut = true;
        facts_.remarks.push_back("what stands behind its byte " +
                                 std::to_string(splitter->whole_bytes()) +
                                 " is left out: " + std::string(status.message()));
      }
      return absl::OkStatus();
    }
    if (is_cut == nullptr) return absl::OkStatus();
    const std::string cut = (*bytes)->Cut();
    *is_cut = splitter->is_cut() || !cut.empty();
    if (*is_cut) {
      facts_.remarks.push_back("it is cut off: " + (cut.empty() ? "its end" : cut) +
                               " is missing, and what stands behind byte " +
                               std::to_string(splitter->whole_bytes()) +
                               " of its text, the end of its last whole event, is left out");
    }
    return absl::OkStatus();
  }

  static absl::Status SplitAll(JsonSplitter* splitter, ByteSource* bytes) {
    while (true) {
      const std::span<char> room = splitter->Room();
      const absl::StatusOr<size_t> got = bytes->Read(room.data(), room.size());
      if (!got.ok()) return got.status();
      if (*got == 0) return splitter->Finish();
      if (absl::Status status = splitter->Filled(*got); !status.ok()) return status;
    }
  }

  SourceFacts facts_;
  SourceObserver* const observer_;
  JsonSplitter::Layout layout_;
  bool salvage_;
  int64_t unit_ns_ = 1000;
  int64_t unit_of_reading_ns_ = 1000;
  int64_t base_ns_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SourceInput>> OpenJsonSource(const std::string& path,
                                                            bool has_events_alone, bool is_dftracer,
                                                            bool salvage,
                                                            SourceObserver* observer) {
  auto source =
      std::make_unique<JsonSource>(path, has_events_alone, is_dftracer, salvage, observer);
  if (absl::Status status = source->ReadFacts(); !status.ok()) return status;
  return source;
}

}  // namespace proftrace
