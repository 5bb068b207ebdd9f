// Cuts a trace in JSON into its events and the members beside them, as its bytes come in: memory is
// bounded by one event, not by the file.
//
//   {"a": 1, "traceEvents": [{…}, {…}], "b": 2}     members a and b, and two events
//   [{…}, {…}]      [{…}\n{…},\n      {…}\n{…}      events alone; brackets and commas may be
//   missing
//
// Where a value begins and ends is found by brackets and quotes alone: what is in it is for whoever
// takes it.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

class JsonSplitter {
 public:
  // One event, member or key is refused from here on.
  static constexpr size_t kLongestValue = size_t{16} << 20;

  struct Taker {
    // The sources of a member beside the events, and of an event. `offset`: where it begins, in
    // bytes of the text. What is taken lives until the call returns.
    std::function<absl::Status(std::string_view key, std::string_view value, uint64_t offset)>
        member;
    std::function<absl::Status(std::string_view event, uint64_t offset)> event;
  };
  enum class Layout : uint8_t { kNotKnown, kDocument, kEvents };

  // `path` is for messages. `layout`: kNotKnown: one that begins with "{" is a document.
  JsonSplitter(std::string path, Layout layout, Taker taker);

  // Returns room for the next bytes, at least 64 KiB.
  std::span<char> Room();
  // Takes the first `bytes` bytes that were put there. Fails as the taker does, and with
  // kInputDamaged where the text is no such JSON; after that nothing more may be given.
  absl::Status Filled(size_t bytes);
  // Copies the bytes; else as the two above.
  absl::Status Take(std::string_view bytes);
  // The text has ended. Tells whether it was whole: an event at its end may be cut off, or what
  // closes the document missing.
  absl::Status Finish();
  bool is_cut() const { return is_cut_; }
  // Returns where the last whole event or member ends, in bytes of the text.
  uint64_t whole_bytes() const { return whole_bytes_; }

  // Says that the text is wrong at that byte. `what`: "the end of an event" was wanted there.
  absl::Status Wrong(uint64_t offset, std::string_view wanted) const;

 private:
  enum class State : uint8_t { kStart, kKey, kColon, kValue, kAfterMember, kEvents, kEnd };
  // What a step of the parser came to.
  enum class Step : uint8_t { kDone, kNeedsMore };

  absl::Status Parse();
  absl::Status ParseOne(char c, Step* step);
  absl::Status TakeMember(Step* step);
  absl::Status TakeEvent(char c, Step* step);
  // Finds where the value at `begin_` ends; kNeedsMore: not yet there. Fails where it is too long.
  absl::Status FindEnd(Step* step, size_t* end);
  void FindEndOfScalar();
  void FindEndOfText();
  void FindEndOfNested();
  // Goes on to `until`, or to the end where that is before it.
  void FindEndOfNested(size_t until);
  uint64_t OffsetOf(size_t place) const { return offset_ + place; }
  void Consume(size_t end) {
    begin_ = end;
    scanned_ = end;
    depth_ = 0;
    is_in_text_ = false;
    has_end_ = false;
  }
  std::string_view Between(size_t begin, size_t end) const {
    return {buffer_.data() + begin, end - begin};
  }

  std::string path_;
  Taker taker_;
  Layout layout_;
  State state_ = State::kStart;
  std::vector<char> buffer_;
  size_t begin_ = 0;     // what is before it was taken
  size_t end_ = 0;       // of what was filled in
  uint64_t offset_ = 0;  // of buffer_[0] in the text
  // How far FindEnd() has come, and what is open there.
  size_t scanned_ = 0;
  size_t depth_ = 0;
  bool is_in_text_ = false;
  bool has_end_ = false;
  bool has_ended_ = false;  // the text has
  bool is_cut_ = false;
  uint64_t whole_bytes_ = 0;
  std::string key_;
  uint64_t key_offset_ = 0;
};

}  // namespace proftrace
