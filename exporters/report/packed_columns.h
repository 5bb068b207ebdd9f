// Packs columns of numbers and their texts into a page: each number has a variable count of bytes,
// all bytes are one gzip member, and this is written as base64.
//
//   bytes    = columns, in the order of the index
//   column   = numbers; of one with deltas, each but the first less the one before it
//   number   = zigzag (0, -1, 1, -2, …), seven bits a byte, the lowest first; the last byte < 128
//   texts    = UTF-8, each ended by a byte 0; the number of a text is its place among them
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/args/recording_json.h"

namespace proftrace {

enum class Packing { kPlain, kDeltas };

class PackedColumns {
 public:
  // Returns the number of a text. The text is escaped by ShownText(), and cut where it is very
  // long.
  uint32_t Text(std::string_view text);

  // Adds a column. There must be no column of this name yet.
  void Add(const std::string& name, const std::vector<int64_t>& values,
           Packing packing = Packing::kPlain);

  // Returns {"NAME": [first byte, count, 1 with deltas]} and, as "texts", [first byte, count].
  // Nothing can be added afterwards.
  OrderedJson Finish();
  // Returns the bytes, after Finish().
  absl::StatusOr<std::string> Base64() const;

 private:
  OrderedJson index_ = OrderedJson::object();
  std::string bytes_;
  std::string texts_;
  absl::flat_hash_map<std::string, uint32_t> text_ids_;
};

// A table that is filled row by row, and becomes columns named "PREFIX.NAME".
class PackedTable {
 public:
  explicit PackedTable(std::vector<std::string> names)
      : names_(std::move(names)), columns_(names_.size()) {}

  // Adds a row with one value for each name.
  void AddRow(const std::vector<int64_t>& row);
  size_t size() const { return columns_.front().size(); }
  void AddTo(const std::string& prefix, PackedColumns* columns) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<int64_t>> columns_;
};

}  // namespace proftrace
