#include "exporters/report/packed_columns.h"

#include <absl/strings/escaping.h>

#include <memory>
#include <utility>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/gzip_sink.h"
#include "exporters/sinks/output_file.h"
#include "userspace/base/shown_text.h"

namespace proftrace {
namespace {

constexpr size_t kMostCodePoints = 500;  // of a text

// A sink that appends its input to a string which outlives it.
class OutsideSink : public ByteSink {
 public:
  explicit OutsideSink(std::string* text) : text_(text) {}
  absl::Status Write(std::string_view bytes) override {
    *text_ += bytes;
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  std::string* text_;
};

void PutNumber(int64_t value, std::string* bytes) {
  uint64_t rest = (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
  for (; rest >= 128; rest >>= 7) bytes->push_back(static_cast<char>(rest | 128));
  bytes->push_back(static_cast<char>(rest));
}

}  // namespace

uint32_t PackedColumns::Text(std::string_view text) {
  std::string shown = ShownText(ToValidUtf8(text));
  if (CodePoints(shown) > kMostCodePoints) {
    shown = std::string(FirstCodePoints(shown, kMostCodePoints)) + "…";
  }
  const auto [it, inserted] =
      text_ids_.try_emplace(std::move(shown), static_cast<uint32_t>(text_ids_.size()));
  if (inserted) {
    texts_ += it->first;
    texts_.push_back('\0');
  }
  return it->second;
}

void PackedColumns::Add(const std::string& name, const std::vector<int64_t>& values,
                        Packing packing) {
  const bool has_deltas = packing == Packing::kDeltas;
  index_[name] = {bytes_.size(), values.size(), has_deltas ? 1 : 0};
  int64_t before = 0;
  for (const int64_t value : values) {
    PutNumber(has_deltas ? value - before : value, &bytes_);
    before = value;
  }
}

OrderedJson PackedColumns::Finish() {
  index_["texts"] = {bytes_.size(), text_ids_.size()};
  bytes_ += texts_;
  return index_;
}

absl::StatusOr<std::string> PackedColumns::Base64() const {
  std::string packed;
  const std::unique_ptr<ByteSink> gzip = NewGzipSink(std::make_unique<OutsideSink>(&packed));
  if (absl::Status status = gzip->Write(bytes_); !status.ok()) return status;
  if (absl::Status status = gzip->Finish(); !status.ok()) return status;
  return absl::Base64Escape(packed);
}

void PackedTable::AddRow(const std::vector<int64_t>& row) {
  for (size_t i = 0; i < columns_.size(); ++i) columns_[i].push_back(row[i]);
}

void PackedTable::AddTo(const std::string& prefix, PackedColumns* columns) const {
  for (size_t i = 0; i < columns_.size(); ++i) columns->Add(prefix + "." + names_[i], columns_[i]);
}

}  // namespace proftrace
