#include "userspace/fleet_sources/json_splitter.h"

#include <emmintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"

namespace proftrace {
namespace {

constexpr size_t kWindowBytes = size_t{1} << 20;
constexpr size_t kLeastRoom = size_t{64} << 10;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool IsJsonBlank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

bool EndsScalar(char c) { return IsJsonBlank(c) || c == ',' || c == ']' || c == '}'; }

// Calls found(place) at each byte of the classes, in order, until it returns false. Returns the
// place where it did, or `end`.
template <typename Masks, typename IsWanted, typename Found>
size_t ForEachWanted(const char* text, size_t at, size_t end, const Masks& masks,
                     const IsWanted& is_wanted, const Found& found) {
  for (; at + 16 <= end; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + at));
    auto mask = static_cast<uint32_t>(_mm_movemask_epi8(masks(bytes)));
    for (; mask != 0; mask &= mask - 1) {
      const size_t place = at + static_cast<size_t>(std::countr_zero(mask));
      if (!found(place)) return place;
    }
  }
  for (; at < end; ++at) {
    if (is_wanted(text[at]) && !found(at)) return at;
  }
  return end;
}

// Masks of the quotes and brackets in a block of text. The lowest bit is the first byte.
constexpr size_t kBlockBytes = 64;
struct BlockMasks {
  explicit BlockMasks(const char* text) {
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    const __m128i open = _mm_set1_epi8('{');
    const __m128i close = _mm_set1_epi8('}');
    const __m128i case_bit = _mm_set1_epi8(0x20);  // '[' is '{' without it, and ']' is '}'
    for (size_t at = 0; at < kBlockBytes; at += sizeof(__m128i)) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + at));
      const __m128i folded = _mm_or_si128(bytes, case_bit);
      const auto add = [at](__m128i is_equal, uint64_t* mask) {
        *mask |= uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(is_equal))} << at;
      };
      add(_mm_cmpeq_epi8(bytes, quote), &quotes);
      add(_mm_cmpeq_epi8(bytes, backslash), &backslashes);
      add(_mm_cmpeq_epi8(folded, open), &opening);
      add(_mm_cmpeq_epi8(folded, close), &closing);
    }
  }

  uint64_t quotes = 0;
  uint64_t backslashes = 0;
  uint64_t opening = 0;
  uint64_t closing = 0;
};

// Returns the bits from each first set bit up to the second one, which is left out. For a mask of
// quotes these are the bytes of the strings.
uint64_t BetweenBits(uint64_t bits) {
  for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
  return bits;
}

}  // namespace

JsonSplitter::JsonSplitter(std::string path, Layout layout, Taker taker)
    : path_(std::move(path)), taker_(std::move(taker)), layout_(layout) {
  if (layout == Layout::kEvents) state_ = State::kEvents;
}

std::span<char> JsonSplitter::Room() {
  if (begin_ > 0 && (begin_ == end_ || buffer_.size() - end_ < kLeastRoom)) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    offset_ += begin_;
    end_ -= begin_;
    scanned_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < kLeastRoom) {
    buffer_.resize(std::max(buffer_.size() * 2, kWindowBytes));
  }
  return {buffer_.data() + end_, buffer_.size() - end_};
}

absl::Status JsonSplitter::Filled(size_t bytes) {
  end_ += bytes;
  return Parse();
}

absl::Status JsonSplitter::Take(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::span<char> room = Room();
    const size_t part = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), part);
    bytes.remove_prefix(part);
    if (absl::Status status = Filled(part); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status JsonSplitter::Finish() {
  has_ended_ = true;
  if (absl::Status status = Parse(); !status.ok()) return status;
  if (layout_ == Layout::kEvents) {
    is_cut_ = begin_ < end_;
    return absl::OkStatus();
  }
  if (state_ == State::kStart) return Wrong(OffsetOf(end_), "a trace");
  is_cut_ = state_ != State::kEnd;
  return absl::OkStatus();
}

absl::Status JsonSplitter::Wrong(uint64_t offset, std::string_view wanted) const {
  std::string found = "the file ends";
  if (offset >= offset_ && offset < OffsetOf(end_)) {
    std::string text(Between(offset - offset_, std::min(offset - offset_ + 16, end_)));
    found = "\"" + ShownText(text) + "\" stands";
  }
  return Fail(ExitCode::kInputDamaged,
              path_ + " is no trace in JSON: at byte " + std::to_string(offset) + " " + found +
                  " where " + std::string(wanted) +
                  " should be; write it again, or take what is whole before that with --salvage");
}

absl::Status JsonSplitter::Parse() {
  while (true) {
    while (begin_ < end_ && IsJsonBlank(buffer_[begin_])) Consume(begin_ + 1);
    if (begin_ == end_) return absl::OkStatus();
    Step step = Step::kDone;
    if (absl::Status status = ParseOne(buffer_[begin_], &step); !status.ok()) return status;
    if (step == Step::kNeedsMore) return absl::OkStatus();
  }
}

absl::Status JsonSplitter::ParseOne(char c, Step* step) {
  switch (state_) {
    case State::kStart:
      if (Between(begin_, end_).starts_with(kByteOrderMark)) {
        Consume(begin_ + kByteOrderMark.size());
        return absl::OkStatus();
      }
      if (c == kByteOrderMark[0] && end_ - begin_ < kByteOrderMark.size() && !has_ended_) {
        *step = Step::kNeedsMore;
        return absl::OkStatus();
      }
      if (c != '{' && c != '[') return Wrong(OffsetOf(begin_), "a trace");
      layout_ = c == '{' ? Layout::kDocument : Layout::kEvents;
      state_ = c == '{' ? State::kKey : State::kEvents;
      Consume(begin_ + 1);
      return absl::OkStatus();
    case State::kKey:
    case State::kValue:
      return TakeMember(step);
    case State::kColon:
      if (c != ':') return Wrong(OffsetOf(begin_), "a colon");
      state_ = State::kValue;
      Consume(begin_ + 1);
      return absl::OkStatus();
    case State::kAfterMember:
      if (c != ',' && c != '}')
        return Wrong(OffsetOf(begin_), "a comma or the end of the document");
      state_ = c == ',' ? State::kKey : State::kEnd;
      Consume(begin_ + 1);
      whole_bytes_ = OffsetOf(begin_);
      return absl::OkStatus();
    case State::kEvents:
      return TakeEvent(c, step);
    case State::kEnd:
      return Wrong(OffsetOf(begin_), "the end of the file");
  }
  return absl::OkStatus();
}

absl::Status JsonSplitter::TakeMember(Step* step) {
  const bool is_key = state_ == State::kKey;
  if (is_key && buffer_[begin_] == '}') {  // an empty object, or a comma before the closing brace
    state_ = State::kAfterMember;
    return absl::OkStatus();
  }
  if (is_key && buffer_[begin_] != '"') return Wrong(OffsetOf(begin_), "a key");
  if (!is_key && key_ == "traceEvents" && buffer_[begin_] == '[') {
    state_ = State::kEvents;
    Consume(begin_ + 1);
    return absl::OkStatus();
  }
  size_t end = 0;
  if (absl::Status status = FindEnd(step, &end); !status.ok() || *step == Step::kNeedsMore) {
    return status;
  }
  if (is_key) {
    key_ = std::string(Between(begin_ + 1, end - 1));
    key_offset_ = OffsetOf(begin_);
    state_ = State::kColon;
  } else {
    if (end == begin_) return Wrong(OffsetOf(begin_), "a value");
    if (absl::Status status = taker_.member(key_, Between(begin_, end), OffsetOf(begin_));
        !status.ok()) {
      return status;
    }
    state_ = State::kAfterMember;
    whole_bytes_ = OffsetOf(end);
  }
  Consume(end);
  return absl::OkStatus();
}

absl::Status JsonSplitter::TakeEvent(char c, Step* step) {
  if (c == '{') {
    size_t end = 0;
    if (absl::Status status = FindEnd(step, &end); !status.ok() || *step == Step::kNeedsMore) {
      return status;
    }
    if (absl::Status status = taker_.event(Between(begin_, end), OffsetOf(begin_)); !status.ok()) {
      return status;
    }
    Consume(end);
    whole_bytes_ = OffsetOf(begin_);
    return absl::OkStatus();
  }
  // Files that were joined of several parts have brackets between events as well.
  const bool is_between = c == ',' || (layout_ == Layout::kEvents && (c == '[' || c == ']'));
  if (!is_between && c != ']') return Wrong(OffsetOf(begin_), "an event or a closing bracket");
  if (!is_between) state_ = State::kAfterMember;
  Consume(begin_ + 1);
  return absl::OkStatus();
}

absl::Status JsonSplitter::FindEnd(Step* step, size_t* end) {
  const char first = buffer_[begin_];
  if (first == '{' || first == '[') {
    FindEndOfNested();
  } else if (first == '"') {
    FindEndOfText();
  } else {
    FindEndOfScalar();
  }
  const bool is_complete = has_end_;
  if (scanned_ - begin_ > kLongestValue) {
    return Fail(ExitCode::kInputDamaged,
                path_ + " has a value of more than 16 MiB, which begins at byte " +
                    std::to_string(OffsetOf(begin_)) +
                    ": no profiler writes such a one; write the file again");
  }
  if (!is_complete) *step = Step::kNeedsMore;
  *end = scanned_;
  return absl::OkStatus();
}

void JsonSplitter::FindEndOfScalar() {
  while (scanned_ < end_ && !EndsScalar(buffer_[scanned_])) ++scanned_;
  has_end_ = scanned_ < end_;
}

void JsonSplitter::FindEndOfText() {
  if (scanned_ == begin_) ++scanned_;
  while (scanned_ < end_) {
    if (buffer_[scanned_] == '\\') {
      if (scanned_ + 1 == end_) return;
      scanned_ += 2;
    } else if (buffer_[scanned_++] == '"') {
      has_end_ = true;
      return;
    }
  }
}

void JsonSplitter::FindEndOfNested() {
  while (!has_end_ && scanned_ + kBlockBytes <= end_) {
    const BlockMasks block(buffer_.data() + scanned_);
    if (block.backslashes != 0) {
      const size_t before = scanned_;
      FindEndOfNested(scanned_ + kBlockBytes);
      if (scanned_ == before) return;  // the last byte so far is a backslash
      continue;
    }
    const uint64_t in_text = BetweenBits(block.quotes) ^ (is_in_text_ ? ~uint64_t{0} : 0);
    const uint64_t closing = block.closing & ~in_text;
    const uint64_t opening = block.opening & ~in_text;
    if (static_cast<size_t>(std::popcount(closing)) < depth_) {
      depth_ += static_cast<size_t>(std::popcount(opening));
      depth_ -= static_cast<size_t>(std::popcount(closing));
    } else {
      for (uint64_t both = opening | closing; both != 0; both &= both - 1) {
        const uint64_t lowest = both & (~both + 1);
        if ((opening & lowest) != 0) {
          ++depth_;
        } else if (--depth_ == 0) {
          has_end_ = true;
          scanned_ += static_cast<size_t>(std::countr_zero(lowest)) + 1;
          return;
        }
      }
    }
    is_in_text_ = in_text >> 63 != 0;
    scanned_ += kBlockBytes;
  }
  FindEndOfNested(end_);
}

void JsonSplitter::FindEndOfNested(size_t until) {
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i open = _mm_set1_epi8('{');
  const __m128i close = _mm_set1_epi8('}');
  const __m128i case_bit = _mm_set1_epi8(0x20);  // '[' is '{' without it, and ']' is '}'
  while (scanned_ < until && !has_end_) {
    if (is_in_text_) {
      scanned_ = ForEachWanted(
          buffer_.data(), scanned_, until,
          [&](__m128i bytes) {
            return _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash));
          },
          [](char c) { return c == '"' || c == '\\'; }, [](size_t) { return false; });
      if (scanned_ == until) return;
      if (buffer_[scanned_] == '\\') {
        if (scanned_ + 1 == end_) return;
        scanned_ += 2;
      } else {
        is_in_text_ = false;
        ++scanned_;
      }
      continue;
    }
    scanned_ = ForEachWanted(
        buffer_.data(), scanned_, until,
        [&](__m128i bytes) {
          const __m128i folded = _mm_or_si128(bytes, case_bit);
          return _mm_or_si128(
              _mm_cmpeq_epi8(bytes, quote),
              _mm_or_si128(_mm_cmpeq_epi8(folded, open), _mm_cmpeq_epi8(folded, close)));
        },
        [](char c) { return c == '"' || c == '{' || c == '[' || c == '}' || c == ']'; },
        [&](size_t place) {
          const char c = buffer_[place];
          if (c == '"') {
            is_in_text_ = true;
            return false;
          }
          if (c == '{' || c == '[') {
            ++depth_;
            return true;
          }
          has_end_ = --depth_ == 0;
          return !has_end_;
        });
    if (scanned_ < until) ++scanned_;  // goes on behind the quote or the last bracket
  }
}

}  // namespace proftrace
