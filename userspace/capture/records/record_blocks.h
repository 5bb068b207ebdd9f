// Keeps whole records in blocks. Records are never moved or copied when more come, so that adding
// takes the same time however many there are. Blocks that were read are used again.
#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "bpf/abi/records.h"

namespace proftrace {

class RecordBlocks {
 public:
  static constexpr size_t kBlockBytes = size_t{1} << 20;

  // Adds a whole record, struct pt_record at the front.
  void Add(std::span<const std::byte> record) {
    if (blocks_.empty() || blocks_.back().capacity() - blocks_.back().size() < record.size()) {
      blocks_.push_back(NewBlock());
    }
    blocks_.back().insert(blocks_.back().end(), record.begin(), record.end());
    bytes_ += record.size();
  }
  size_t bytes() const { return bytes_; }

  // Takes all blocks, and leaves none.
  std::deque<std::vector<std::byte>> Take() {
    bytes_ = 0;
    return std::exchange(blocks_, {});
  }
  // Gives back the blocks that Take() gave, for the records to come.
  void GiveBack(std::deque<std::vector<std::byte>> blocks) {
    for (std::vector<std::byte>& block : blocks) {
      if (spare_.size() == kMostSpare) return;
      block.clear();
      spare_.push_back(std::move(block));
    }
  }

  // Calls `on_record` for each record. `on_record` may change the record, but not its size.
  template <typename OnRecord>
  static void ForEach(std::deque<std::vector<std::byte>>& blocks, OnRecord&& on_record) {
    for (std::vector<std::byte>& block : blocks) {
      for (size_t at = 0; at < block.size();) {
        abi::pt_record head{};
        std::memcpy(&head, block.data() + at, sizeof(head));
        const size_t bytes = size_t{head.words} * 8;
        on_record(std::span(block).subspan(at, bytes));
        at += bytes;
      }
    }
  }

 private:
  static constexpr size_t kMostSpare = 8;

  std::vector<std::byte> NewBlock() {
    std::vector<std::byte> block;
    if (!spare_.empty()) {
      block = std::move(spare_.back());
      spare_.pop_back();
    }
    block.reserve(kBlockBytes);
    return block;
  }

  std::deque<std::vector<std::byte>> blocks_;
  std::vector<std::vector<std::byte>> spare_;
  size_t bytes_ = 0;
};

}  // namespace proftrace
