// Traces in JSON that anybody may have written: cut into events, mended, read for their facts. The
// first byte chooses the layout, gzip, and the size of the parts in which the text comes in.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>

#include "userspace/collectives/json_text.h"
#include "userspace/fleet_sources/byte_source.h"
#include "userspace/fleet_sources/json_splitter.h"
#include "userspace/fleet_sources/trace_facts.h"

namespace proftrace {
namespace {

class BytesInParts final : public ByteSource {
 public:
  BytesInParts(std::span<const uint8_t> bytes, size_t part) : bytes_(bytes), part_(part) {}
  absl::StatusOr<size_t> Read(char* to, size_t most) override {
    const size_t size = std::min({most, part_, bytes_.size()});
    if (size > 0) std::memcpy(to, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
    return size;
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t part_;
};

// What was mended is JSON.
void CheckMended(std::string_view object) {
  JsonFlaws flaws;
  size_t wrong_at = 0;
  const std::optional<size_t> end = JsonValueEnd(object, 0, &flaws, &wrong_at);
  if (!end || *end != object.size() || flaws.any()) abort();
}

absl::Status ReadAll(ByteSource* bytes, JsonSplitter* splitter) {
  while (true) {
    const std::span<char> room = splitter->Room();
    const absl::StatusOr<size_t> got = bytes->Read(room.data(), room.size());
    if (!got.ok()) return got.status();
    if (*got == 0) return splitter->Finish();
    if (absl::Status status = splitter->Filled(*got); !status.ok()) return status;
  }
}

void Fuzz(uint8_t choice, std::span<const uint8_t> data) {
  TraceFacts collected;
  std::optional<TraceEvents> events;
  JsonSplitter splitter(
      "file", (choice & 1) != 0 ? JsonSplitter::Layout::kEvents : JsonSplitter::Layout::kNotKnown,
      {[&](std::string_view key, std::string_view value, uint64_t) {
         collected.TakeMember(key, value);
         return absl::OkStatus();
       },
       [&](std::string_view text, uint64_t offset) {
         return events->Read(text, offset, [&](const SourceEvent& event) {
           if (!event.args.empty()) CheckMended(event.args);
           CheckMended("{" + std::string(event.others) + "}");
           collected.TakeEvent(event);
           return absl::OkStatus();
         });
       }});
  events.emplace(&splitter, TraceTimes());
  std::unique_ptr<ByteSource> bytes =
      std::make_unique<BytesInParts>(data, size_t{1} + (choice >> 2));
  if ((choice & 2) != 0) bytes = NewGunzipSource(std::move(bytes), "file");
  if (!ReadAll(bytes.get(), &splitter).ok()) return;
  SourceFacts facts;
  collected.Finish(splitter.is_cut(), &facts);
  events->AddRemarks(&facts.remarks);
  for (const SourceCall& call : facts.calls) {
    if (call.call.group >= facts.groups.size()) abort();
  }
}

}  // namespace
}  // namespace proftrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1) proftrace::Fuzz(data[0], {data + 1, size - 1});
  return 0;
}
