// What operators are called with, read from a process that means harm: every call ends in a record
// that says what was there, or in one that says that it was not read. This process is the hostile
// one: it calls a probed function of its own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "userspace/capture/bpf_programs.h"
#include "userspace/decode/input_format.h"

// A push comes first: where the probe is.
extern "C" void HostileCall(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f);
asm(R"(
  .text
  .globl HostileCall
  .type HostileCall, @function
HostileCall:
  push %rbx
  pop %rbx
  ret
  .size HostileCall, . - HostileCall
)");

namespace proftrace {
namespace {

constexpr uint16_t kSite = 7;
constexpr uint16_t kKeySetOffset = 168;
constexpr uint64_t kTensorVtable = 0x7654321;
constexpr uint8_t kBoolTag = 9;
constexpr uint64_t kListTag = kBoolTag + 4;

abi::pt_torch_layout Layout() {
  abi::pt_torch_layout layout{};
  layout.undefined_tensor = 0x1000;
  layout.tensor_vtable = kTensorVtable;
  layout.nested_keys = 1 << 20;
  layout.unstrided_keys = 1 << 21;
  layout.key_set_offset = kKeySetOffset;
  layout.dtypes = 40;
  layout.scalar_uint_tag = 2;
  layout.scalar_complex_tag = 3;
  layout.scalar_bool_tag = 4;
  layout.value_bool_tag = kBoolTag;
  layout.value_uint_tag = 0;
  layout.object_header = 16;
  layout.symbolic_bit = 52;
  layout.python_tensor = 16;
  layout.python_items = 24;
  layout.python_numbers = 1;
  return layout;
}

// A TensorImpl: the words from sizes_and_strides_ to key_set_ are all that is read of it.
struct FakeTensor {
  std::array<uint64_t, (kKeySetOffset + 8) / 8> words{};

  FakeTensor(std::vector<uint64_t> sizes, uint64_t numel) {
    uint64_t* shape = &words[(kKeySetOffset - 112) / 8];
    shape[0] = sizes.size();
    for (size_t i = 0; i < sizes.size() && i < 5; ++i) {
      shape[1 + i] = sizes[i];
      shape[6 + i] = 1;
    }
    shape[12] = numel;
    shape[13] = 6;  // float
  }
  uint64_t& dimensions() { return words[(kKeySetOffset - 112) / 8]; }
  uint64_t& sizes() { return words[(kKeySetOffset - 112) / 8 + 1]; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(words.data()); }
};

// What came of one call.
struct Answer {
  abi::pt_inputs_record head{};
  std::vector<uint64_t> values;
  std::optional<OperatorInputs> Format() const {
    return head.flags != 0 ? std::nullopt : FormatInputs(values, head.count, {}, InputForm());
  }
};

class HostileInputsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    BpfOptions options;
    options.record_shapes = true;
    auto loaded = BpfPrograms::Load(options);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    programs_ = *std::move(loaded);
    ASSERT_TRUE(programs_->reads_inputs());
  }
  static void TearDownTestSuite() { programs_.reset(); }

  // Where HostileCall is in this program's file.
  static uint64_t FileOffset() {
    const uint64_t address = reinterpret_cast<uint64_t>(&HostileCall);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      unsigned long start = 0, end = 0, offset = 0;
      if (std::sscanf(line.c_str(), "%lx-%lx %*s %lx", &start, &end, &offset) != 3) continue;
      if (address >= start && address < end) return address - start + offset;
    }
    return 0;
  }

  // Its arguments are `arguments`.
  void Attach(const std::vector<abi::pt_argument>& arguments) {
    abi::pt_signature signature{};
    signature.layout = Layout();
    signature.count = static_cast<uint32_t>(arguments.size());
    std::copy(arguments.begin(), arguments.end(), signature.arguments);
    const auto number = programs_->AddSignature(signature);
    ASSERT_TRUE(number.ok()) << number.status();
    AttachProbe(PT_COOKIE(kSite, abi::PT_ROLE_INPUTS_BEGIN, 0, 0) | static_cast<uint64_t>(*number)
                                                                        << 48);
  }
  void Attach(abi::pt_argument_kind kind) {
    switch (kind) {
      case abi::PT_ARGUMENT_VALUES:
      case abi::PT_ARGUMENT_LAST_VALUES:
      case abi::PT_ARGUMENT_PYTHON_VALUES:
      case abi::PT_ARGUMENT_PYTHON_ARGUMENTS:
      case abi::PT_ARGUMENT_INFERRED_VALUES:
        AttachRow(Argument(kind));
        break;
      default:
        Attach({Argument(kind)});
    }
  }
  // Attaches the probe of a row that begins in the function.
  void AttachRow(const abi::pt_argument& argument) {
    abi::pt_signature signature{};
    signature.layout = Layout();
    signature.count = 1;
    signature.arguments[0] = argument;
    const auto number = programs_->AddSignature(signature);
    ASSERT_TRUE(number.ok()) << number.status();
    abi::pt_row_inputs row{};
    row.signature = *number;
    row.count = 2;
    for (const auto& [word, reg] : {std::pair{0, 7}, {1, 6}}) {  // rdi, rsi
      row.words[word].base = static_cast<uint8_t>(reg);
      row.words[word].count = 1;
    }
    const auto inputs = programs_->AddRowInputs(row);
    ASSERT_TRUE(inputs.ok()) << inputs.status();
    abi::pt_place place{};
    place.base = abi::PT_PLACE_UNKNOWN;
    place.count = 1;
    place.form = abi::PT_PLACE_NOTHING;
    place.inputs = *inputs;
    const auto key = programs_->AddValuePlace(place);
    ASSERT_TRUE(key.ok()) << key.status();
    AttachProbe(PT_COOKIE(kSite, abi::PT_ROLE_GUARD_BEGIN, 7, 0) | static_cast<uint64_t>(*key)
                                                                       << 48);
  }
  void AttachProbe(uint64_t cookie) {
    ModulePlan module;
    module.name = "hostile";
    module.held = HeldFile::Hold(UniqueFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
    module.points = {{FileOffset(), cookie}};
    AttachReport report;
    auto links = programs_->Attach(module, Pid{static_cast<uint32_t>(getpid())}, &report);
    ASSERT_TRUE(links.ok()) << links.status();
    ASSERT_EQ(report.points, 1u);
    links_ = *std::move(links);
  }
  static abi::pt_argument Argument(abi::pt_argument_kind kind) {
    abi::pt_argument argument{};
    argument.kind = static_cast<uint8_t>(kind);
    argument.place = abi::PT_RDI;
    argument.second = abi::PT_RSI;
    argument.flag = abi::PT_ARGUMENT_NOWHERE;
    return argument;
  }

  // Takes what is in the ring: one answer for each call, and a begin behind each.
  std::vector<Answer> Take() {
    std::vector<Answer> answers;
    size_t begins = 0;
    const auto taken = programs_->Poll(0, [&](std::span<const std::byte> record) {
      abi::pt_record head;
      std::memcpy(&head, record.data(), sizeof(head));
      EXPECT_EQ(head.site, kSite);
      EXPECT_EQ(size_t{head.words} * 8, record.size());
      if (head.kind == abi::PT_SPAN_BEGIN || head.kind == abi::PT_GUARD_BEGIN) {
        ++begins;
        return;
      }
      ASSERT_GE(record.size(), size_t{PT_INPUTS_HEAD_BYTES});
      if (head.kind == abi::PT_INPUTS) answers.emplace_back();
      ASSERT_FALSE(answers.empty());
      Answer& answer = answers.back();
      if (head.kind == abi::PT_INPUTS) {
        std::memcpy(&answer.head, record.data(), PT_INPUTS_HEAD_BYTES);
      }
      const size_t words = (record.size() - PT_INPUTS_HEAD_BYTES) / 8;
      const size_t before = answer.values.size();
      answer.values.resize(before + words);
      std::memcpy(answer.values.data() + before, record.data() + PT_INPUTS_HEAD_BYTES, words * 8);
    });
    EXPECT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(answers.size(), begins);
    EXPECT_EQ(programs_->ReadCounters().ring_lost, 0u);
    return answers;
  }
  Answer Call(uint64_t first, uint64_t second = 0) {
    HostileCall(first, second, 0, 0, 0, 0);
    auto answers = Take();
    EXPECT_EQ(answers.size(), 1u);
    return answers.empty() ? Answer() : answers[0];
  }
  template <typename T>
  Answer CallWith(const T& object, uint64_t second = 0) {
    return Call(reinterpret_cast<uint64_t>(&object), second);
  }

  static std::unique_ptr<BpfPrograms> programs_;
  LinkSet links_;
};
std::unique_ptr<BpfPrograms> HostileInputsTest::programs_;

constexpr uint64_t kUnmapped = 0xdead0000;
constexpr uint64_t kKernelAddress = 0xffff888000000000;
constexpr uint64_t kNotCanonical = 0x8000000000000000;

TEST_F(HostileInputsTest, PointersToNowhereAreToldOf) {
  for (const auto kind :
       {abi::PT_ARGUMENT_TENSOR, abi::PT_ARGUMENT_TENSOR_ITEMS, abi::PT_ARGUMENT_TENSOR_VECTOR,
        abi::PT_ARGUMENT_SYMBOLIC_INT, abi::PT_ARGUMENT_SCALAR, abi::PT_ARGUMENT_STACK_VALUES,
        abi::PT_ARGUMENT_LIST, abi::PT_ARGUMENT_LAST_VALUES, abi::PT_ARGUMENT_PYTHON_VALUES,
        abi::PT_ARGUMENT_PYTHON_ARGUMENTS, abi::PT_ARGUMENT_OBJECT_VECTOR,
        abi::PT_ARGUMENT_INT_VECTOR}) {
    Attach(kind);
    for (const uint64_t address : {uint64_t{0}, uint64_t{1}, kUnmapped, kKernelAddress,
                                   kNotCanonical, ~uint64_t{0}, ~uint64_t{0} - 7}) {
      EXPECT_EQ(Call(address, 1).head.flags & abi::PT_INPUTS_FAILED, abi::PT_INPUTS_FAILED)
          << kind << " " << std::hex << address;
    }
    links_.clear();
  }
}

TEST_F(HostileInputsTest, ATensorIsTakenOnlyIfItHoldsTogether) {
  Attach(abi::PT_ARGUMENT_TENSOR);
  FakeTensor good({2, 3}, 6);
  uint64_t impl = good.address();
  const auto formatted = CallWith(impl).Format();
  ASSERT_TRUE(formatted);
  EXPECT_EQ(formatted->dims, "[[2, 3]]");

  FakeTensor wrong_count({2, 3}, 7);
  impl = wrong_count.address();
  EXPECT_EQ(CallWith(impl).head.flags, abi::PT_INPUTS_IMPLAUSIBLE);
  for (const uint64_t dimensions :
       {uint64_t{65}, uint64_t{1} << 32, uint64_t{1} << 63, ~uint64_t{0}}) {
    FakeTensor tensor({2, 3}, 6);
    tensor.dimensions() = dimensions;
    impl = tensor.address();
    EXPECT_EQ(CallWith(impl).head.flags, abi::PT_INPUTS_IMPLAUSIBLE) << dimensions;
  }
  // More than five sizes lie elsewhere: nowhere.
  for (const uint64_t address : {uint64_t{0}, kUnmapped, kKernelAddress, kNotCanonical}) {
    FakeTensor tensor({}, 1);
    tensor.dimensions() = 64;
    tensor.sizes() = address;
    impl = tensor.address();
    EXPECT_EQ(CallWith(impl).head.flags, abi::PT_INPUTS_FAILED) << std::hex << address;
  }
  // One whose sizes only Python knows.
  FakeTensor symbolic({0}, 5);
  symbolic.words[(kKeySetOffset - 8) / 8] |= uint64_t{1} << 52;
  impl = symbolic.address();
  const auto hidden = CallWith(impl).Format();
  ASSERT_TRUE(hidden);
  EXPECT_EQ(hidden->dims, "[[]]");
  EXPECT_EQ(hidden->types, R"([""])");
}

struct FakeVector {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t capacity = 0;
};

TEST_F(HostileInputsTest, VectorsThatEndBeforeTheyBeginAreNone) {
  for (const auto kind :
       {abi::PT_ARGUMENT_TENSOR_VECTOR, abi::PT_ARGUMENT_STACK_VALUES, abi::PT_ARGUMENT_INT_VECTOR,
        abi::PT_ARGUMENT_OBJECT_VECTOR, abi::PT_ARGUMENT_LAST_VALUES}) {
    Attach(kind);
    const FakeVector vector{0x2000, 0x1000, 0};
    EXPECT_NE(CallWith(vector).head.flags & abi::PT_INPUTS_IMPLAUSIBLE, 0) << kind;
    links_.clear();
  }
}

TEST_F(HostileInputsTest, ListsThatClaimTooMuchAreCut) {
  const FakeVector endless{0, ~uint64_t{0} & ~uint64_t{15}, 0};
  for (const auto kind : {abi::PT_ARGUMENT_TENSOR_VECTOR, abi::PT_ARGUMENT_STACK_VALUES}) {
    Attach(kind);
    EXPECT_NE(CallWith(endless).head.flags & abi::PT_INPUTS_CUT, 0) << kind;
    links_.clear();
  }
  Attach(abi::PT_ARGUMENT_TENSORS);
  EXPECT_NE(Call(0x1000, uint64_t{1} << 62).head.flags & abi::PT_INPUTS_CUT, 0);
  links_.clear();
  // As torch does not show lists of that length, there is nothing to read.
  Attach(abi::PT_ARGUMENT_INTS);
  const Answer ints = Call(kUnmapped, uint64_t{1} << 62);
  EXPECT_EQ(ints.head.flags, 0);
  ASSERT_TRUE(ints.Format());
  EXPECT_EQ(ints.Format()->concrete, R"([""])");
}

TEST_F(HostileInputsTest, MoreThanThereIsRoomForIsSaidToBeCut) {
  Attach(abi::PT_ARGUMENT_TENSORS);
  FakeTensor tensor({1, 1, 1, 1, uint64_t{1} << 40}, uint64_t{1} << 40);
  const std::vector<uint64_t> tensors(4096, tensor.address());
  EXPECT_EQ(Call(reinterpret_cast<uint64_t>(tensors.data()), 4096).head.flags, abi::PT_INPUTS_CUT);
}

struct FakeList {
  uint64_t header[2] = {};
  FakeVector values;
  uint64_t element_type = 0;
};

TEST_F(HostileInputsTest, AListOfItselfEnds) {
  Attach(abi::PT_ARGUMENT_STACK_VALUES);
  FakeList list;
  const uint64_t type = 0;
  const uint64_t self[2] = {reinterpret_cast<uint64_t>(&list), kListTag};
  list.values = {reinterpret_cast<uint64_t>(self), reinterpret_cast<uint64_t>(self + 2), 0};
  list.element_type = reinterpret_cast<uint64_t>(&type);
  const FakeVector stack = list.values;
  const auto formatted = CallWith(stack).Format();
  ASSERT_TRUE(formatted);
  EXPECT_EQ(formatted->types, R"([""])");
  // And one that says that it is a list of tensors.
  const uint64_t tensors = kTensorVtable;
  list.element_type = reinterpret_cast<uint64_t>(&tensors);
  EXPECT_NE(CallWith(stack).head.flags, 0);
}

TEST_F(HostileInputsTest, PythonObjectsThatPointInCirclesEnd) {
  Attach(abi::PT_ARGUMENT_PYTHON_VALUES);
  // A type that is its own base and its own type, in a tuple of itself.
  std::array<uint64_t, 64> object{};
  const uint64_t self = reinterpret_cast<uint64_t>(object.data());
  object[1] = self;        // type
  object[2] = 1;           // size
  object[3] = self;        // the first item; the name of the type
  object[168 / 8] = 0;     // flags
  object[256 / 8] = self;  // base
  const Answer answer = Call(self);
  EXPECT_EQ(answer.head.flags, 0);
  EXPECT_EQ(answer.head.count, 0);
  object[2] = uint64_t{1} << 60;
  EXPECT_EQ(Call(self).head.flags, abi::PT_INPUTS_CUT);
}

// What is no tuple by its type is not taken for one.
TEST_F(HostileInputsTest, PythonArgumentsAreInATuple) {
  Attach(abi::PT_ARGUMENT_PYTHON_ARGUMENTS);
  std::array<uint64_t, 64> type{};
  const char name[24] = "tuple";
  const char other[24] = "frozenset";
  std::array<uint64_t, 4> object{};
  object[1] = reinterpret_cast<uint64_t>(type.data());
  type[3] = reinterpret_cast<uint64_t>(name);
  EXPECT_EQ(CallWith(object).head.flags, 0);
  type[3] = reinterpret_cast<uint64_t>(other);
  EXPECT_EQ(CallWith(object).head.flags, abi::PT_INPUTS_IMPLAUSIBLE);
  // An item of a type that torch may know, and we do not.
  type[3] = reinterpret_cast<uint64_t>(name);
  std::array<uint64_t, 64> item_type{};
  item_type[3] = reinterpret_cast<uint64_t>(other);
  const std::array<uint64_t, 4> item = {1, reinterpret_cast<uint64_t>(item_type.data()), 0, 0};
  object[2] = 1;
  object[3] = reinterpret_cast<uint64_t>(item.data());
  EXPECT_EQ(CallWith(object).head.flags, abi::PT_INPUTS_UNTOLD);
}

TEST_F(HostileInputsTest, SequencesOfPythonAreWhatTheirTypesSay) {
  Attach(abi::PT_ARGUMENT_INFERRED_VALUES);
  EXPECT_EQ(Call(0).head.count, 0);  // no sequence
  EXPECT_EQ(Call(0).head.flags, 0);
  for (const uint64_t address : {uint64_t{1}, kUnmapped, kKernelAddress, kNotCanonical}) {
    EXPECT_EQ(Call(address).head.flags, abi::PT_INPUTS_FAILED) << std::hex << address;
  }
  // One type and one object in one, whose first item is itself.
  std::array<uint64_t, 64> object{};
  const uint64_t self = reinterpret_cast<uint64_t>(object.data());
  char name[16] = "tuple";
  object[1] = self;
  object[2] = 1;
  object[3] = reinterpret_cast<uint64_t>(name);  // the name of the type
  object[256 / 8] = self;
  std::array<uint64_t, 8> items{};
  items[1] = self;
  items[2] = 2;
  items[3] = items[4] = reinterpret_cast<uint64_t>(items.data());
  const uint64_t sequence = reinterpret_cast<uint64_t>(items.data());
  // A tuple of itself is more than can be told.
  EXPECT_EQ(Call(sequence).head.flags, abi::PT_INPUTS_UNTOLD);
  items[2] = uint64_t{1} << 60;
  EXPECT_EQ(Call(sequence).head.flags, abi::PT_INPUTS_CUT);
  items[2] = 2;
  items[4] = kUnmapped;
  EXPECT_NE(Call(sequence).head.flags, 0);
  std::strcpy(name, "list");  // whose items are elsewhere: nowhere
  items[3] = kUnmapped;
  EXPECT_EQ(Call(sequence).head.flags, abi::PT_INPUTS_FAILED);
  std::strcpy(name, "float");
  EXPECT_EQ(Call(sequence).head.flags, abi::PT_INPUTS_UNTOLD);
}

// All kinds over memory of random words, many of which point back into it.
TEST_F(HostileInputsTest, GarbageIsRefusedOrWellFormed) {
  std::mt19937_64 random(20260101);
  std::vector<uint64_t> memory(4096);
  const uint64_t start = reinterpret_cast<uint64_t>(memory.data());
  uint64_t refused = 0;
  uint64_t read = 0;
  for (int kind = 0; kind <= abi::PT_ARGUMENT_INFERRED_VALUES; ++kind) {
    if (kind > abi::PT_ARGUMENT_SAVED_DOUBLE && kind < abi::PT_ARGUMENT_LIST) continue;
    Attach(static_cast<abi::pt_argument_kind>(kind));
    for (int round = 0; round < 300; ++round) {
      for (uint64_t& word : memory) {
        switch (random() % 6) {
          case 0:
            word = random();
            break;
          case 1:
            word = random() % 70;
            break;
          case 2:
            word = random() % 2 ? kTensorVtable : kListTag;
            break;
          default:
            word = start + random() % (memory.size() * 8) / 8 * 8;
        }
      }
      const Answer answer = Call(start + random() % 4000 / 8 * 8, random() % 64);
      const auto formatted = answer.Format();
      (formatted ? read : refused) += 1;
      EXPECT_TRUE(answer.head.flags == 0 || answer.values.empty());
    }
    links_.clear();
  }
  EXPECT_GT(refused, 500u);
  EXPECT_GT(read, 500u);
  // No buffer was kept.
  Attach(abi::PT_ARGUMENT_TENSOR);
  const FakeTensor tensor({4}, 4);
  const uint64_t impl = tensor.address();
  const auto formatted = CallWith(impl).Format();
  ASSERT_TRUE(formatted);
  EXPECT_EQ(formatted->dims, "[[4]]");
}

// The memory of a tensor comes and goes on another thread, and its shape changes, as it is read.
TEST_F(HostileInputsTest, ATensorThatIsFreedWhileItIsRead) {
  Attach(abi::PT_ARGUMENT_TENSOR);
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* place = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(place, MAP_FAILED);
  const FakeTensor small({2, 3}, 6);
  const FakeTensor large({7, 7, 7}, 343);
  std::atomic<bool> stop = false;
  std::thread other([&] {
    for (int i = 0; !stop; ++i) {
      mmap(place, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      std::memcpy(place, i % 2 ? small.words.data() : large.words.data(), sizeof(small.words));
      for (volatile int turn = 0; turn < 3000;) turn = turn + 1;
      if (i % 3 == 0) mprotect(place, page, PROT_NONE);
    }
  });
  const uint64_t impl = reinterpret_cast<uint64_t>(place);
  size_t whole = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto formatted = CallWith(impl).Format();
    if (!formatted) continue;
    // A fresh page that is filled while it is read may hold together too: as a tensor without
    // elements.
    EXPECT_TRUE(formatted->dims == "[[2, 3]]" || formatted->dims == "[[7, 7, 7]]" ||
                formatted->dims.find('0') != std::string::npos)
        << formatted->dims;
    ++whole;
  }
  stop = true;
  other.join();
  munmap(place, page);
  EXPECT_GT(whole, 0u);
}

}  // namespace
}  // namespace proftrace
