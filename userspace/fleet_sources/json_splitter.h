// Cuts a trace in JSON into its events and the members beside them as its bytes come in, so that
// memory is bounded by one event and not by the file.
//
//   {"a": 1, "traceEvents": [{…}, {…}], "b": 2}     members a and b, and two events
//   [{…}, {…}]      [{…}\n{…},\n      {…}\n{…}      events alone; brackets and commas may be
//   missing
//
// Begin and end of a value are found by brackets and quotes alone. Whoever takes the value must
// check what is in it.
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
  // The size in bytes from which on an event, a member or a key is refused.
  static constexpr size_t kLongestValue = size_t{16} << 20;

  struct Taker {
    // Take the source of a member beside the events, and of an event. `offset`: where it begins in
    // the text, in bytes. The texts live until the call returns.
    std::function<absl::Status(std::string_view key, std::string_view value, uint64_t offset)>
        member;
    std::function<absl::Status(std::string_view event, uint64_t offset)> event;
  };
  enum class Layout : uint8_t { kNotKnown, kDocument, kEvents };

  // `path` is for messages. `layout`: with kNotKnown, a text that begins with "{" is a document.
  JsonSplitter(std::string path, Layout layout, Taker taker);

  // Returns room for the next bytes, at least 64 KiB.
  std::span<char> Room();
  // Takes the first `bytes` bytes of Room(), which the caller has filled. Fails as the taker does,
  // and with kInputDamaged where the text is not JSON of this form; no more bytes may follow a
  // failure.
  absl::Status Filled(size_t bytes);
  // Copies the bytes to Room(), and takes them as Filled() does.
  absl::Status Take(std::string_view bytes);
  // Notes that the text has ended, and checks whether it was whole: its last event may be cut off,
  // or the end of the document missing. is_cut() tells.
  absl::Status Finish();
  bool is_cut() const { return is_cut_; }
  // Returns where the last whole event or member ends, in bytes of the text.
  uint64_t whole_bytes() const { return whole_bytes_; }

  // Returns the error that the text is wrong at that byte. `wanted`: what was expected there, as
  // "the end of an event".
  absl::Status Wrong(uint64_t offset, std::string_view wanted) const;

 private:
  enum class State : uint8_t { kStart, kKey, kColon, kValue, kAfterMember, kEvents, kEnd };
  // The result of a step of the parser.
  enum class Step : uint8_t { kDone, kNeedsMore };

  absl::Status Parse();
  absl::Status ParseOne(char c, Step* step);
  absl::Status TakeMember(Step* step);
  absl::Status TakeEvent(char c, Step* step);
  // Finds where the value at `begin_` ends. `*step` becomes kNeedsMore where the end has not come
  // yet. Fails where the value is too long.
  absl::Status FindEnd(Step* step, size_t* end);
  void FindEndOfScalar();
  void FindEndOfText();
  void FindEndOfNested();
  // Searches up to `until`, or up to the value's end where that comes first.
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
  size_t begin_ = 0;     // the bytes before it were taken
  size_t end_ = 0;       // the end of the bytes that were filled in
  uint64_t offset_ = 0;  // the offset of buffer_[0] in the text
  // The place that FindEnd() has come to, and the brackets and quotes that are open there.
  size_t scanned_ = 0;
  size_t depth_ = 0;
  bool is_in_text_ = false;
  bool has_end_ = false;
  bool has_ended_ = false;  // whether the text has ended
  bool is_cut_ = false;
  uint64_t whole_bytes_ = 0;
  std::string key_;
  uint64_t key_offset_ = 0;
};

}  // namespace proftrace
