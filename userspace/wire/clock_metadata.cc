#include "userspace/wire/clock_metadata.h"

#include "userspace/wire/metadata_json.h"

namespace proftrace {

using namespace metadata_json;  // NOLINT(google-build-using-namespace)

namespace {

// The most snapshots that are read, because a hostile file may hold any number. 120 days make this
// many.
constexpr size_t kMostSnapshots = size_t{1} << 20;
constexpr int64_t kLongestGapNs = 60'000'000'000;
// The largest values that are read, which are beyond the kernel's limits: 16 s of error, 500 ppm.
constexpr int64_t kLargestErrorNs = 3600'000'000'000;
constexpr int64_t kLargestFrequencyPpb = 1'000'000;

// Reads the fields of an entry, and notes whether all values are possible.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}

  std::optional<int64_t> Find(const char* key, int64_t least, int64_t most) {
    const auto it = object_.find(key);
    if (it == object_.end()) return std::nullopt;
    const std::optional<int64_t> value = WholeNumber<int64_t>(*it);
    if (value && *value >= least && *value <= most) return value;
    can_be_ = false;
    return std::nullopt;
  }

  int64_t Take(const char* key, int64_t least, int64_t most) {
    const std::optional<int64_t> value = Find(key, least, most);
    if (!value) can_be_ = false;
    return value.value_or(0);
  }

  bool can_be() const { return can_be_; }

 private:
  const json& object_;
  bool can_be_ = true;
};

std::optional<NtpState> NtpFromJson(const json& object) {
  Fields fields(object);
  NtpState ntp;
  ntp.is_synchronised = Flag(object, "synchronised");
  ntp.max_error_ns = fields.Take("max_error_ns", 0, kLargestErrorNs);
  ntp.estimated_error_ns = fields.Take("estimated_error_ns", 0, kLargestErrorNs);
  ntp.offset_ns = fields.Take("offset_ns", -kLargestErrorNs, kLargestErrorNs);
  ntp.frequency_ppb = fields.Take("frequency_ppb", -kLargestFrequencyPpb, kLargestFrequencyPpb);
  ntp.status = static_cast<uint32_t>(fields.Take("status", 0, UINT32_MAX));
  if (!fields.can_be()) return std::nullopt;
  return ntp;
}

std::optional<ClockSnapshot> ClocksFromJson(const json& entry) {
  Fields fields(entry);
  ClockSnapshot clocks;
  clocks.monotonic_ns = fields.Take("monotonic_ns", 0, kLatestMonotonicNs);
  clocks.monotonic_raw_ns = fields.Find("monotonic_raw_ns", 0, kLatestMonotonicNs);
  clocks.boottime_ns = fields.Find("boottime_ns", 0, kLatestMonotonicNs);
  clocks.realtime_ns = fields.Find("realtime_ns", 0, kLatestUnixNs);
  clocks.tai_ns = fields.Find("tai_ns", 0, kLatestUnixNs);
  clocks.gap_ns = fields.Take("gap_ns", 0, kLongestGapNs);
  const json& ntp = Member(entry, "ntp");
  if (!ntp.is_null()) clocks.ntp = NtpFromJson(ntp);
  if (!fields.can_be() || clocks.ntp.has_value() == ntp.is_null()) return std::nullopt;
  return clocks;
}

}  // namespace

json ClocksToJson(const ClockSnapshot& clocks) {
  json entry = {
      {"type", "clock"}, {"monotonic_ns", clocks.monotonic_ns}, {"gap_ns", clocks.gap_ns}};
  const auto add = [&entry](const char* key, const std::optional<int64_t>& ns) {
    if (ns) entry[key] = *ns;
  };
  add("monotonic_raw_ns", clocks.monotonic_raw_ns);
  add("boottime_ns", clocks.boottime_ns);
  add("realtime_ns", clocks.realtime_ns);
  add("tai_ns", clocks.tai_ns);
  if (clocks.ntp) {
    entry["ntp"] = {{"synchronised", clocks.ntp->is_synchronised},
                    {"max_error_ns", clocks.ntp->max_error_ns},
                    {"estimated_error_ns", clocks.ntp->estimated_error_ns},
                    {"offset_ns", clocks.ntp->offset_ns},
                    {"frequency_ppb", clocks.ntp->frequency_ppb},
                    {"status", clocks.ntp->status}};
  }
  return entry;
}

void MergeClocks(const json& entry, RecordingInfo* info) {
  const std::optional<ClockSnapshot> clocks = ClocksFromJson(entry);
  if (!clocks || info->clocks.size() >= kMostSnapshots) return;
  const bool is_in_order =
      info->clocks.empty() || info->clocks.back().monotonic_ns <= clocks->monotonic_ns;
  if (is_in_order) info->clocks.push_back(*clocks);
}

}  // namespace proftrace
