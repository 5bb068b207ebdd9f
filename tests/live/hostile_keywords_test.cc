// Keyword values of annotations, read from a process that means harm (hostile_call.h): a dict is
// damaged in every word that is read of it.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "tests/live/hostile_call.h"
#include "userspace/decode/keyword_format.h"

namespace proftrace {
namespace {

// A type of Python's.
struct FakeType {
  std::array<uint64_t, 64> words{};
  char name[16] = "";

  FakeType(const char* given_name, uint64_t flags) {
    std::strcpy(name, given_name);
    words[3] = reinterpret_cast<uint64_t>(name);
    words[168 / 8] = flags;
  }
  uint64_t address() const { return reinterpret_cast<uint64_t>(words.data()); }
};

// A dict of two texts by texts, as CPython lays it out in `kind`
// (pt_torch_layout.python_dict_kind).
class FakeDict {
 public:
  explicit FakeDict(uint8_t kind) : is_new_(kind != 0) {
    Text(&key, "key");
    Text(&value, "value");
    Reset();
  }
  void Reset() {
    dict = {};
    table = {};
    dict[1] = dict_type.address();
    dict[2] = 2;
    dict[4] = reinterpret_cast<uint64_t>(table.data());
    if (is_new_) {
      table[1] = 3 | 3 << 8 | 1 << 16;  // eight slots, an index of eight bytes, texts alone
      table[3] = 2;
    } else {
      table[1] = 8;
      table[4] = 2;
    }
    // Behind the index: where texts are alone entries have no hash.
    uint64_t* entry = &table[is_new_ ? 5 : 6];
    for (int i = 0; i < 2; ++i) {
      if (!is_new_) ++entry;
      *entry++ = reinterpret_cast<uint64_t>(key.data());
      *entry++ = reinterpret_cast<uint64_t>(value.data());
    }
  }
  uint64_t& table_address() { return dict[4]; }
  uint64_t& values_address() { return dict[5]; }
  uint64_t& size() { return table[1]; }
  uint64_t& entries() { return table[is_new_ ? 3 : 4]; }
  uint64_t& first_key() { return table[is_new_ ? 5 : 7]; }
  uint64_t& first_value() { return table[is_new_ ? 6 : 8]; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(dict.data()); }

  FakeType dict_type{"dict", 0};
  FakeType text_type{"str", 1 << 28};
  FakeType bytes_type{"bytes", 1 << 27};
  FakeType list_type{"list", 0};
  FakeType tuple_type{"tuple", 0};
  std::array<uint64_t, 8> dict{};
  std::array<uint64_t, 64> table{};
  std::array<uint64_t, 8> key{};
  std::array<uint64_t, 8> value{};

 private:
  void Text(std::array<uint64_t, 8>* object, const char* text) {
    (*object)[1] = text_type.address();
    (*object)[2] = std::strlen(text);
    (*object)[4] = 0x60 | 1 << 2;  // compact, ASCII
    std::strcpy(reinterpret_cast<char*>(&(*object)[6]), text);
  }
  bool is_new_;
};

constexpr uint8_t kDictKinds[] = {0, 1, 2};
// Numbers that are too large for what they count, or as addresses lead nowhere.
constexpr uint64_t kNonsense[] = {0,
                                  1,
                                  3,
                                  63,
                                  255,
                                  256,
                                  257,
                                  0xffffffff,
                                  uint64_t{1} << 32,
                                  uint64_t{1} << 60,
                                  kUnmapped,
                                  kKernelAddress,
                                  kNotCanonical,
                                  std::numeric_limits<uint64_t>::max()};

// Either it is told that the keywords were not read, or they are well-formed.
void ExpectToldOrRead(const Answer& answer, const char* what, uint64_t word) {
  ASSERT_TRUE(answer.has_keywords()) << what << std::hex << " " << word;
  if (answer.keyword_head.flags != 0) {
    EXPECT_TRUE(answer.keyword_values.empty()) << what << std::hex << " " << word;
    return;
  }
  EXPECT_TRUE(FormatKeywords(answer.keyword_values, answer.keyword_head.count).has_value())
      << what << std::hex << " " << word;
}

TEST_F(HostileInputsTest, KeywordsOfADictThatIsWholeAreRead) {
  for (const uint8_t kind : kDictKinds) {
    AttachRow(Argument(abi::PT_ARGUMENT_INFERRED_VALUES), kind);
    const FakeDict dict(kind);
    const Answer answer = Call(0, dict.address());
    ASSERT_TRUE(answer.has_keywords());
    EXPECT_EQ(answer.keyword_head.flags, 0);
    const auto keywords = FormatKeywords(answer.keyword_values, answer.keyword_head.count);
    ASSERT_TRUE(keywords.has_value());
    ASSERT_EQ(keywords->size(), 2u);
    EXPECT_EQ(keywords->front().name, "key");
    links_.clear();
  }
}

TEST_F(HostileInputsTest, KeywordsOfADamagedDictAreRefusedOrWellFormed) {
  for (const uint8_t kind : kDictKinds) {
    AttachRow(Argument(abi::PT_ARGUMENT_INFERRED_VALUES), kind);
    FakeDict dict(kind);
    using Word = uint64_t& (FakeDict::*)();
    for (const auto& [what, word] :
         std::initializer_list<std::pair<const char*, Word>>{{"table", &FakeDict::table_address},
                                                             {"values", &FakeDict::values_address},
                                                             {"size", &FakeDict::size},
                                                             {"entries", &FakeDict::entries},
                                                             {"key", &FakeDict::first_key},
                                                             {"value", &FakeDict::first_value}}) {
      for (const uint64_t nonsense : kNonsense) {
        dict.Reset();
        (dict.*word)() = nonsense;
        ExpectToldOrRead(Call(0, dict.address()), what, nonsense);
      }
    }
    // More entries than are ever read are told of.
    dict.Reset();
    dict.entries() = uint64_t{1} << 40;
    EXPECT_EQ(Call(0, dict.address()).keyword_head.flags, abi::PT_INPUTS_CUT);
    // Every logarithm that a byte may claim.
    for (uint64_t log2 = 0; log2 < 256; ++log2) {
      dict.Reset();
      dict.size() = log2 | log2 << 8 | (log2 & 3) << 16;
      ExpectToldOrRead(Call(0, dict.address()), "log2", log2);
    }
    links_.clear();
  }
}

TEST_F(HostileInputsTest, KeywordTextsAndSequencesThatClaimTooMuch) {
  AttachRow(Argument(abi::PT_ARGUMENT_INFERRED_VALUES), 1);
  FakeDict dict(1);
  for (auto* text : {&dict.key, &dict.value}) {
    const auto whole = *text;
    for (const uint64_t nonsense : kNonsense) {
      (*text)[2] = nonsense;  // its length
      ExpectToldOrRead(Call(0, dict.address()), "length", nonsense);
      *text = whole;
      (*text)[4] = nonsense;  // its state
      ExpectToldOrRead(Call(0, dict.address()), "state", nonsense);
      *text = whole;
      (*text)[1] = nonsense;  // its type
      ExpectToldOrRead(Call(0, dict.address()), "type", nonsense);
      *text = whole;
      (*text)[1] = dict.bytes_type.address();
      (*text)[2] = nonsense;
      ExpectToldOrRead(Call(0, dict.address()), "bytes", nonsense);
      *text = whole;
    }
  }
  // A value that is a list or tuple of itself, or of more than there is.
  const auto whole = dict.value;
  for (const FakeType* type : {&dict.list_type, &dict.tuple_type, &dict.dict_type}) {
    for (const uint64_t nonsense : kNonsense) {
      dict.value = {};
      dict.value[1] = type->address();
      dict.value[2] = nonsense;
      dict.value[3] = dict.value[4] = reinterpret_cast<uint64_t>(dict.value.data());
      ExpectToldOrRead(Call(0, dict.address()), type->name, nonsense);
    }
  }
  dict.value = whole;
  const Answer answer = Call(0, dict.address());
  EXPECT_EQ(answer.keyword_head.flags, 0);
  EXPECT_EQ(answer.keyword_head.count, 2);
}

// All of a dict of random words, many of which point back into it: each call is bounded.
TEST_F(HostileInputsTest, ADictOfGarbageTakesNoLongTime) {
  std::mt19937_64 random(20261128);
  for (const uint8_t kind : kDictKinds) {
    AttachRow(Argument(abi::PT_ARGUMENT_INFERRED_VALUES), kind);
    FakeDict dict(kind);
    std::vector<uint64_t> memory(2048);
    const uint64_t start = reinterpret_cast<uint64_t>(memory.data());
    const uint64_t types[] = {dict.dict_type.address(), dict.text_type.address(),
                              dict.bytes_type.address(), dict.list_type.address(),
                              dict.tuple_type.address()};
    for (int round = 0; round < 300; ++round) {
      for (uint64_t& word : memory) {
        switch (random() % 8) {
          case 0:
            word = random();
            break;
          case 1:
            word = random() % 300;
            break;
          case 2:
          case 3:
            word = types[random() % std::size(types)];
            break;
          default:
            word = start + random() % 1900 * 8;
        }
      }
      dict.Reset();
      dict.table_address() = start + random() % 1000 * 8;
      if (random() % 2) dict.values_address() = start + random() % 1000 * 8;
      const Answer answer = Call(0, dict.address());
      ExpectToldOrRead(answer, "garbage", static_cast<uint64_t>(round));
      EXPECT_LE(answer.keyword_values.size(), 8192u);
    }
    links_.clear();
  }
}

}  // namespace
}  // namespace proftrace
