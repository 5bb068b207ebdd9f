// Writes JSON piece by piece, for outputs that are too long to be a document in memory: commas,
// colons, quotes and escapes are here and nowhere else. The bytes are those that the caller orders:
// keys stay in the order in which they are written, and lines end where the caller says.
//
// Three places can be written to:
//   JsonStream  a TextWriter, which the writer does not own;
//   JsonText    a string of its own, for members that another row takes;
//   JsonRow     room for one row that was reserved before, so that a row of millions costs one
//               check of the room and its end stays in a register.
//
// What is opened must be closed: Done() checks that, and each call checks that an object gets keys
// and an array gets none. A mistake is our own bug and ends the program. A JsonRow checks this only
// in builds without optimization, because it would cost as much as writing. At most 64 objects and
// arrays may be open.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/text_writer.h"

namespace proftrace {

// kSpaced: a blank stands after each comma and colon, as Kineto writes. kTight: none does.
enum class JsonSpacing : uint8_t { kSpaced, kTight };
// kValue: the writer writes whole values. kMembers: it writes members of an object that somebody
// else opens and closes.
enum class JsonRoot : uint8_t { kValue, kMembers };

// Prints what was wrong and ends the program.
[[noreturn]] void StopAtBrokenJson(const char* what);

// Returns the shortest digits that give the same number again: those of a float where a float can
// hold the value. Infinities and NaN are 0, because JSON has no word for them.
std::string JsonReal(double value);

// A string to write into.
class StringText {
 public:
  static constexpr bool kIsChecked = true;
  char* Reserve(size_t bytes) {
    const size_t size = text_.size();
    text_.resize(size + bytes);
    return text_.data() + size;
  }
  void Advance(const char* to) { text_.resize(static_cast<size_t>(to - text_.data())); }
  std::string Take() { return std::exchange(text_, {}); }

 private:
  std::string text_;
};

// Room for one row in a TextWriter. Nothing of the row counts before Commit().
class ReservedText {
 public:
#ifdef __OPTIMIZE__
  static constexpr bool kIsChecked = false;
#else
  static constexpr bool kIsChecked = true;
#endif
  // `bytes`: what the row takes at most, with its line end.
  ReservedText(TextWriter* writer, size_t bytes) : writer_(writer), at_(writer->Reserve(bytes)) {}
  char* Reserve(size_t /*bytes*/) { return at_; }
  void Advance(char* to) { at_ = to; }
  // Adds the row to what was written, and `end` behind it.
  void Commit(std::string_view end) { writer_->Advance(PutText(at_, end)); }

 private:
  TextWriter* writer_;
  char* at_;
};

template <typename Output>
class JsonWriter {
 public:
  explicit JsonWriter(Output output, JsonSpacing spacing = JsonSpacing::kSpaced,
                      JsonRoot root = JsonRoot::kValue)
      : output_(std::forward<Output>(output)),
        tight_(spacing == JsonSpacing::kTight ? 1 : 0),
        is_object_(root == JsonRoot::kMembers ? 1 : 0) {}

  // The spacing holds for what is directly within; what is opened in there has its own.
  [[gnu::always_inline]] void BeginObject(JsonSpacing spacing = JsonSpacing::kSpaced) {
    BeginValue();
    Put("{");
    Open(spacing, 1);
  }
  [[gnu::always_inline]] void EndObject() {
    Close(1);
    Put("}");
  }
  [[gnu::always_inline]] void BeginArray(JsonSpacing spacing = JsonSpacing::kSpaced) {
    BeginValue();
    Put("[");
    Open(spacing, 0);
  }
  [[gnu::always_inline]] void EndArray() {
    Close(0);
    Put("]");
  }

  // Begins a member. The key is written as it is; one from outside must be escaped before.
  [[gnu::always_inline]] JsonWriter& Key(std::string_view key) {
    BeginItem(1);
    char* at = output_.Reserve(key.size() + 4);
    *at++ = '"';
    at = PutText(at, key);
    output_.Advance(PutText(at, (tight_ & 1) != 0 ? "\":" : "\": "));
    SetKey(true);
    return *this;
  }

  template <std::integral Number>
  requires(!std::same_as<Number, bool>) [[gnu::always_inline]] void Integer(Number value) {
    BeginValue();
    output_.Advance(PutInteger(output_.Reserve(kMaxNumberBytes), value));
    EndValue();
  }
  // Writes nanoseconds as microseconds with three decimals.
  [[gnu::always_inline]] void Microseconds(int64_t ns) {
    BeginValue();
    output_.Advance(PutMicroseconds(output_.Reserve(kMaxNumberBytes), ns));
    EndValue();
  }
  // Writes PutDecimal(): so many decimals.
  void Decimal(double value, int decimals) {
    BeginValue();
    output_.Advance(PutDecimal(output_.Reserve(kMaxDecimalBytes), value, decimals));
    EndValue();
  }
  // Writes JsonReal().
  void Real(double value) { Raw(JsonReal(value)); }
  void Bool(bool value) { Raw(value ? "true" : "false"); }
  [[gnu::always_inline]] void Null() { Raw("null"); }
  // Writes a text that may be any bytes, by the rule of JsonEscaped().
  void String(std::string_view text) { Word(JsonEscaped(text)); }
  // Writes a string whose text needs no escapes, or has them already.
  [[gnu::always_inline]] void Word(std::string_view text) {
    BeginValue();
    char* at = output_.Reserve(text.size() + 2);
    *at++ = '"';
    at = PutText(at, text);
    *at++ = '"';
    output_.Advance(at);
    EndValue();
  }
  // Writes a value that is JSON already.
  [[gnu::always_inline]] void Raw(std::string_view json) {
    BeginValue();
    Put(json);
    EndValue();
  }
  // Writes members that are JSON already: `"a": 1, "b": 2`. An empty text has none.
  [[gnu::always_inline]] void Members(std::string_view members) {
    if (members.empty()) return;
    BeginItem(1);
    Put(members);
    needs_comma_ |= 1;
  }

  // Puts the next item or member on a line of its own.
  JsonWriter& Line(std::string_view indent = "") {
    Put((needs_comma_ & 1) != 0 ? ",\n" : "\n");
    Put(indent);
    needs_comma_ &= ~uint64_t{1};
    return *this;
  }
  // Ends the line before a bracket that closes, or behind the last one.
  void EndLine() { Put("\n"); }

  // Returns the place that is written to, so that the caller can pass on a part. What is open stays
  // open.
  Output& output() { return output_; }
  // Returns the place that is written to, once all that was opened is closed.
  [[gnu::always_inline]] Output& Done() {
    if constexpr (kIsChecked) {
      if (depth_ != 0) StopAtBrokenJson("an object or array is still open");
      if (has_key_) StopAtBrokenJson("a key has no value");
    }
    return output_;
  }

 private:
  static constexpr bool kIsChecked = std::remove_reference_t<Output>::kIsChecked;

  [[gnu::always_inline]] void Put(std::string_view text) {
    output_.Advance(PutText(output_.Reserve(text.size()), text));
  }

  void SetKey(bool has_key) {
    if constexpr (kIsChecked) has_key_ = has_key;
  }

  // Begins an item of the innermost object (`in_object`: 1) or array (0).
  [[gnu::always_inline]] void BeginItem(uint64_t in_object) {
    if constexpr (kIsChecked) {
      if (has_key_) StopAtBrokenJson("a key has no value");
      if ((is_object_ & 1) != in_object) {
        StopAtBrokenJson(in_object == 0 ? "an object has a value without a key"
                                        : "a key stands outside of an object");
      }
    }
    if ((needs_comma_ & 1) != 0) Put((tight_ & 1) != 0 ? "," : ", ");
    needs_comma_ &= ~uint64_t{1};
  }
  [[gnu::always_inline]] void BeginValue() {
    if constexpr (kIsChecked) {
      if (has_key_) {
        has_key_ = false;
        return;
      }
      BeginItem(0);
    } else if ((needs_comma_ & 1) != 0) {  // not behind a key
      Put((tight_ & 1) != 0 ? "," : ", ");
    }
  }
  [[gnu::always_inline]] void EndValue() { needs_comma_ |= 1; }

  [[gnu::always_inline]] void Open(JsonSpacing spacing, uint64_t is_object) {
    needs_comma_ = (needs_comma_ | 1) << 1;
    tight_ = tight_ << 1 | (spacing == JsonSpacing::kTight ? 1 : 0);
    if constexpr (kIsChecked) {
      is_object_ = is_object_ << 1 | is_object;
      if (++depth_ == 64) StopAtBrokenJson("too many objects and arrays are open");
    }
  }
  [[gnu::always_inline]] void Close(uint64_t is_object) {
    if constexpr (kIsChecked) {
      if (has_key_) StopAtBrokenJson("a key has no value");
      if (depth_ == 0) StopAtBrokenJson("nothing is open that could be closed");
      if ((is_object_ & 1) != is_object) StopAtBrokenJson("the wrong bracket closes");
      is_object_ >>= 1;
      --depth_;
    }
    needs_comma_ >>= 1;
    tight_ >>= 1;
  }

  Output output_;
  // One bit for each object and array that is open, the innermost lowest.
  uint64_t needs_comma_ = 0;  // whether a comma stands before the next item
  uint64_t tight_;
  uint64_t is_object_;
  int depth_ = 0;
  bool has_key_ = false;  // a key waits for its value
};

using JsonStream = JsonWriter<TextWriter&>;
using JsonText = JsonWriter<StringText>;
using JsonRow = JsonWriter<ReservedText>;

// Return an object with one member.
std::string JsonObjectOf(std::string_view key, std::string_view text);
std::string JsonObjectOf(std::string_view key, int64_t number);

}  // namespace proftrace
