// What operators are called with, read from a process that means harm (hostile_call.h).
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "tests/live/hostile_call.h"

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
