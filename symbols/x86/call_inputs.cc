#include "symbols/x86/call_inputs.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace proftrace {
namespace {

constexpr unsigned kWordBytes = 8;
// rbx, rbp, r12 to r15, in the order in which the probe numbers them.
constexpr uint8_t kKeptRegisters[] = {3, 5, 12, 13, 14, 15};

bool IsVector(uint8_t place) {
  return place >= abi::PT_ARGUMENT_VECTOR_REGISTER && place < abi::PT_ARGUMENT_IN_MEMORY;
}
bool IsWord(uint8_t place) { return place < abi::PT_ARGUMENT_IN_MEMORY; }
bool IsOnStack(uint8_t place) { return place >= abi::PT_ARGUMENT_STACK && !IsVector(place); }

// Whether the argument is a number that takes only a part of a word.
bool IsPart(const abi::pt_argument& argument) {
  return argument.kind == abi::PT_ARGUMENT_BYTE || argument.kind == abi::PT_ARGUMENT_BOOL ||
         argument.kind == abi::PT_ARGUMENT_BOOL_ARRAY;
}

bool HasCount(const abi::pt_argument& argument) {
  switch (argument.kind) {
    case abi::PT_ARGUMENT_TENSORS:
    case abi::PT_ARGUMENT_INTS:
    case abi::PT_ARGUMENT_DOUBLES:
    case abi::PT_ARGUMENT_SCALARS:
    case abi::PT_ARGUMENT_NAMES:
      return true;
    default:
      return false;
  }
}

// The place of an argument's first byte, in a kept register or on the stack.
struct Location {
  bool in_frame = false;
  int32_t at = 0;  // as KeptPiece::place

  bool operator==(const Location&) const = default;
};

// Collects the words of arguments at a later instruction. All words are found first, so that it is
// known which part of the stack must be read. Then they get their numbers.
class Words {
 public:
  Words(const KeptArguments& kept, uint32_t frame_words)
      : kept_(kept), frame_words_(static_cast<int32_t>(frame_words)) {}

  std::optional<Location> Find(uint8_t place, unsigned first, unsigned count);
  // Finds a kept copy of the word to which the address at `place` points.
  std::optional<Location> FindPointee(uint8_t place);
  bool FitsInReading() const { return last_ < first_ || last_ - first_ < PT_MOST_STACK_WORDS; }
  // Returns the enum pt_argument_place of a location that was found.
  uint8_t PlaceOf(const Location& location) const;
  void Describe(CallInputs* inputs) const;

 private:
  std::optional<Location> Note(const Location& location, unsigned count);

  const KeptArguments& kept_;
  int32_t frame_words_;
  // The first and the last word of the stack that must be read, counted from the stack pointer.
  int32_t first_ = std::numeric_limits<int32_t>::max();
  int32_t last_ = -1;
};

std::optional<Location> Words::Find(uint8_t place, unsigned first, unsigned count) {
  Location location;
  if (IsOnStack(place)) {
    const int32_t index = place - abi::PT_ARGUMENT_STACK;
    if (index >= kept_.stack_words) return std::nullopt;
    location.in_frame = true;
    // The arguments on the stack lie above the return address.
    location.at =
        (frame_words_ + 1 + index) * static_cast<int32_t>(kWordBytes) + static_cast<int32_t>(first);
  } else {
    const auto source = static_cast<uint8_t>(IsVector(place) ? KeptPiece::kVectorSource + place -
                                                                   abi::PT_ARGUMENT_VECTOR_REGISTER
                                                             : place);
    const auto piece = kept_.Find(source, first, count);
    if (!piece) return std::nullopt;
    location = Location{piece->in_frame, piece->place};
  }
  return Note(location, count);
}

std::optional<Location> Words::FindPointee(uint8_t place) {
  if (place >= KeptPiece::kVectorSource) return std::nullopt;
  const auto piece =
      kept_.Find(static_cast<uint8_t>(KeptPiece::kPointeeSource + place), 0, kWordBytes);
  return piece ? Note(Location{piece->in_frame, piece->place}, kWordBytes) : std::nullopt;
}

// Adds a location to the words that must be read. nullopt: its bytes lie in two words.
std::optional<Location> Words::Note(const Location& location, unsigned count) {
  const unsigned in_word = static_cast<unsigned>(location.at) % kWordBytes;
  if (in_word + count > kWordBytes) return std::nullopt;  // in two words
  if (location.in_frame) {
    const int32_t word = location.at / static_cast<int32_t>(kWordBytes);
    first_ = std::min(first_, word);
    last_ = std::max(last_, word);
  }
  return location;
}

uint8_t Words::PlaceOf(const Location& location) const {
  const auto word = static_cast<unsigned>(location.at) / kWordBytes;
  if (location.in_frame) {
    return static_cast<uint8_t>(abi::PT_ARGUMENT_STACK + static_cast<int32_t>(word) - first_);
  }
  const auto* const found = std::find(std::begin(kKeptRegisters), std::end(kKeptRegisters), word);
  return static_cast<uint8_t>(found - std::begin(kKeptRegisters));
}

void Words::Describe(CallInputs* inputs) const {
  if (last_ < first_) return;
  inputs->first_word = static_cast<uint16_t>(first_);
  inputs->stack_words = static_cast<uint16_t>(last_ - first_ + 1);
}

// The places of the parts of one argument.
struct FoundArgument {
  bool is_pointee = false;  // `value` is the word to which the argument points
  std::optional<Location> value;
  std::optional<Location> count;
  std::optional<Location> flag;
};

std::optional<FoundArgument> FindArgument(const abi::pt_argument& argument, Words* words) {
  FoundArgument found;
  if (argument.kind == abi::PT_ARGUMENT_OTHER) return found;  // torch shows nothing of it
  unsigned first = 0;
  unsigned bytes = kWordBytes;
  if (IsPart(argument)) {
    first = static_cast<unsigned>(argument.value_offset) % kWordBytes;
    bytes = argument.kind == abi::PT_ARGUMENT_BOOL_ARRAY ? argument.second : 1;
  }
  found.value = words->Find(argument.place, first, bytes);
  if (!found.value && argument.kind == abi::PT_ARGUMENT_SYMBOLIC_INT &&
      argument.flag == abi::PT_ARGUMENT_NOWHERE) {
    found.value = words->FindPointee(argument.place);
    found.is_pointee = true;
  }
  if (!found.value) return std::nullopt;
  if (HasCount(argument)) {
    found.count = words->Find(argument.second, 0, kWordBytes);
    if (!found.count) return std::nullopt;
  }
  if (IsWord(argument.flag)) {
    found.flag =
        words->Find(argument.flag, static_cast<unsigned>(argument.flag_offset) % kWordBytes, 1);
    if (!found.flag) return std::nullopt;
  }
  return found;
}

int16_t ByteInWord(const Location& location) {
  return static_cast<int16_t>(static_cast<unsigned>(location.at) % kWordBytes);
}

}  // namespace

std::optional<CallInputs> InputsAtEntry(std::vector<abi::pt_argument> arguments) {
  CallInputs inputs;
  int words = 0;
  const auto note = [&words](uint8_t place) {
    if (IsOnStack(place) && IsWord(place)) {
      words = std::max(words, place - abi::PT_ARGUMENT_STACK + 1);
    }
  };
  for (const abi::pt_argument& argument : arguments) {
    if (argument.kind == abi::PT_ARGUMENT_OTHER) continue;
    note(argument.place);
    if (HasCount(argument)) note(argument.second);
    note(argument.flag);
  }
  if (words > PT_MOST_STACK_WORDS) return std::nullopt;
  inputs.first_word = 1;  // above the return address
  inputs.stack_words = static_cast<uint16_t>(words);
  inputs.arguments = std::move(arguments);
  return inputs;
}

std::optional<CallInputs> InputsAtCall(std::vector<abi::pt_argument> arguments,
                                       const KeptArguments& kept, uint32_t frame_words) {
  Words words(kept, frame_words);
  std::vector<FoundArgument> found;
  for (const abi::pt_argument& argument : arguments) {
    const auto parts = FindArgument(argument, &words);
    if (!parts) return std::nullopt;
    found.push_back(*parts);
  }
  if (!words.FitsInReading()) return std::nullopt;
  for (size_t i = 0; i < arguments.size(); ++i) {
    abi::pt_argument& argument = arguments[i];
    const FoundArgument& parts = found[i];
    if (!parts.value) {
      argument = abi::pt_argument{};
      continue;
    }
    argument.place = words.PlaceOf(*parts.value);
    if (parts.is_pointee) argument.kind = abi::PT_ARGUMENT_SYMBOLIC_WORD;
    if (IsPart(argument)) argument.value_offset = ByteInWord(*parts.value);
    if (parts.count) argument.second = words.PlaceOf(*parts.count);
    if (parts.flag) {
      argument.flag = words.PlaceOf(*parts.flag);
      argument.flag_offset = ByteInWord(*parts.flag);
    }
  }
  CallInputs inputs;
  words.Describe(&inputs);
  inputs.arguments = std::move(arguments);
  return inputs;
}

}  // namespace proftrace
