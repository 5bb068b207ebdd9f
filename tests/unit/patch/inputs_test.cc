// What operators are called with, recorded by the code that runs in jobs: it is called here as
// trampolines call it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "userspace/patch/patch_ring.h"
#include "userspace/patch/recorder_code.h"
#include "userspace/patch/recorder_tables.h"

namespace proftrace {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr int64_t kLong = 3'600'000'000'000;
constexpr uint16_t kSite = 7;
constexpr uint64_t kStack = 0x7ffe12345678;
constexpr uint16_t kKeySetOffset = 168;
constexpr uint8_t kBoolTag = 9;

// A TensorImpl, as far as it is read.
struct FakeTensor {
  std::array<uint64_t, (kKeySetOffset + 8) / 8> words{};

  explicit FakeTensor(const std::vector<uint64_t>& sizes) {
    uint64_t* shape = &words[(kKeySetOffset - 112) / 8];
    shape[0] = sizes.size();
    shape[12] = 1;
    for (size_t i = 0; i < sizes.size(); ++i) {
      shape[1 + i] = sizes[i];
      shape[6 + i] = 1;
      shape[12] *= sizes[i];
    }
    shape[13] = 6;  // float
  }
  uint64_t address() const { return reinterpret_cast<uint64_t>(words.data()); }
};

const FakeTensor undefined_tensor({0});

abi::pt_argument Argument(abi::pt_argument_kind kind, uint8_t place = 0, uint8_t second = 1) {
  abi::pt_argument argument{};
  argument.kind = static_cast<uint8_t>(kind);
  argument.place = place;
  argument.second = second;
  argument.flag = abi::PT_ARGUMENT_NOWHERE;
  return argument;
}

abi::pt_signature Signature(const std::vector<abi::pt_argument>& arguments) {
  abi::pt_signature signature{};
  signature.layout.undefined_tensor = undefined_tensor.address();
  signature.layout.key_set_offset = kKeySetOffset;
  signature.layout.dtypes = 40;
  signature.layout.scalar_uint_tag = 2;
  signature.layout.scalar_complex_tag = 3;
  signature.layout.scalar_bool_tag = 4;
  signature.layout.value_bool_tag = kBoolTag;
  signature.layout.object_header = 16;
  signature.layout.nested_keys = 1 << 20;
  signature.layout.unstrided_keys = 1 << 21;
  signature.layout.symbolic_bit = 52;
  signature.count = static_cast<uint32_t>(arguments.size());
  std::copy(arguments.begin(), arguments.end(), signature.arguments);
  return signature;
}

struct Record {
  abi::pt_record head{};
  std::vector<uint64_t> words;  // behind the head
  uint64_t flags() const { return words[0] >> 56; }
};

class PatchInputsTest : public testing::Test {
 protected:
  void SetUp() override {
    UniqueFd memory(static_cast<int>(syscall(SYS_memfd_create, "ring", 0)));
    options_.slot_words = 1 << 15;
    options_.reads_inputs = true;
    options_.pid = Pid{static_cast<uint32_t>(getpid())};
    ring_bytes_ = PatchRing::Bytes(options_);
    ASSERT_EQ(ftruncate(memory.get(), static_cast<off_t>(ring_bytes_)), 0);
    ring_at_ = mmap(nullptr, ring_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    options_.address = reinterpret_cast<uint64_t>(ring_at_);
    auto ring = PatchRing::Make(memory, options_, [](uint32_t tid) { return tid; });
    ASSERT_TRUE(ring.ok()) << ring.status();
    ring_ = *std::move(ring);
    ring_->LetWrite(kLong);
    const size_t bytes = PATCH_CONTROL_BYTES + RecorderCode().size();
    code_bytes_ = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    code_ = static_cast<uint8_t*>(
        mmap(nullptr, code_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memcpy(code_ + PATCH_CONTROL_RING, &options_.address, sizeof(options_.address));
    std::memcpy(code_ + PATCH_CONTROL_BYTES, RecorderCode().data(), RecorderCode().size());
    ASSERT_EQ(mprotect(code_ + PATCH_CONTROL_BYTES, code_bytes_ - PATCH_CONTROL_BYTES,
                       PROT_READ | PROT_EXEC),
              0);
  }
  void TearDown() override {
    munmap(code_, code_bytes_);
    munmap(ring_at_, ring_bytes_);
  }

  // An operator begins; `kept`: what rbx and r12 to r15 hold. What it may not change is checked.
  void Call(const abi::pt_signature& signature, const std::array<uint64_t, 5>& kept,
            const uint64_t* stack = nullptr) const {
    std::array<uint64_t, 5> now = kept;
    uint64_t before[2] = {0x3ff0000000000000, 0x4000000000000000};
    uint64_t after[2] = {};
    const uint8_t* recorder =
        code_ + PATCH_CONTROL_BYTES + (proftrace_recorder_call - proftrace_recorder_code);
    const uint64_t words[] = {
        reinterpret_cast<uint64_t>(recorder), reinterpret_cast<uint64_t>(&signature),
        reinterpret_cast<uint64_t>(stack),    reinterpret_cast<uint64_t>(now.data()),
        reinterpret_cast<uint64_t>(before),   reinterpret_cast<uint64_t>(after)};
    asm volatile(
        "push %%rbp; push %%rax; mov 24(%%rax), %%rbp; mov 0(%%rbp), %%rbx; mov 8(%%rbp), %%r12\n"
        "mov 16(%%rbp), %%r13; mov 24(%%rbp), %%r14; mov 32(%%rbp), %%r15\n"
        "mov 32(%%rax), %%rcx; movups (%%rcx), %%xmm0; movups (%%rcx), %%xmm7\n"
        "xor %%edi, %%edi; mov %[site], %%esi; mov %[sp], %%rdx; mov 8(%%rax), %%rcx\n"
        "mov 16(%%rax), %%r8; call *0(%%rax); pop %%rax; mov 24(%%rax), %%rcx\n"
        "mov %%rbx, 0(%%rcx); mov %%r12, 8(%%rcx); mov %%r13, 16(%%rcx); mov %%r14, 24(%%rcx)\n"
        "mov %%r15, 32(%%rcx); mov 40(%%rax), %%rcx; addpd %%xmm7, %%xmm0; movups %%xmm0, (%%rcx)\n"
        "pop %%rbp"
        :
        : "a"(words), [site] "i"(kSite), [sp] "i"(kStack)
        : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
          "xmm0", "xmm7", "memory", "cc");
    EXPECT_EQ(now, kept);
    EXPECT_EQ(after[0], 0x4000000000000000u);  // 1 + 1
    EXPECT_EQ(after[1], 0x4010000000000000u);  // 2 + 2
  }

  std::vector<Record> Drain() {
    std::vector<Record> records;
    ring_->Drain([&](std::span<const std::byte> bytes) {
      Record record;
      std::memcpy(&record.head, bytes.data(), sizeof(record.head));
      record.words.resize((bytes.size() - sizeof(record.head)) / 8);
      std::memcpy(record.words.data(), bytes.data() + sizeof(record.head), record.words.size() * 8);
      records.push_back(std::move(record));
    });
    return records;
  }
  // The record of one call.
  Record CallOne(const abi::pt_signature& signature, const std::array<uint64_t, 5>& kept,
                 const uint64_t* stack = nullptr) {
    Call(signature, kept, stack);
    std::vector<Record> records = Drain();
    EXPECT_EQ(records.size(), 1u);
    if (records.empty()) return {};
    EXPECT_EQ(records[0].head.kind, abi::PT_OPERATOR_CALL);
    EXPECT_EQ(records[0].head.site, kSite);
    EXPECT_EQ(records[0].head.sp, static_cast<uint32_t>(kStack >> 3));
    return records[0];
  }

  PatchRingOptions options_;
  std::unique_ptr<PatchRing> ring_;
  void* ring_at_ = nullptr;
  uint64_t ring_bytes_ = 0;
  uint8_t* code_ = nullptr;
  uint64_t code_bytes_ = 0;
};

constexpr uint64_t kTensorWord =
    abi::PT_VALUE_TENSOR | 6 << 16 | uint64_t{abi::PT_TENSOR_STRIDED | abi::PT_TENSOR_PACKED} << 32;

// The arguments of add(Tensor, Scalar, int) and of one on the stack. r12 is word 2, r13 word 3.
TEST_F(PatchInputsTest, AreInOneRecordWithTheBegin) {
  const FakeTensor tensor({2, 3});
  const uint64_t self = tensor.address();
  const uint64_t scalar[4] = {1, 0, 5, 0};
  const uint64_t stack[] = {0, 0, 42};
  abi::pt_signature signature = Signature(
      {Argument(abi::PT_ARGUMENT_TENSOR, 0), Argument(abi::PT_ARGUMENT_SCALAR, 2),
       Argument(abi::PT_ARGUMENT_INT, 3), Argument(abi::PT_ARGUMENT_INT, abi::PT_ARGUMENT_STACK)});
  signature.first_word = 2;
  signature.stack_words = 1;
  const Record record = CallOne(signature,
                                {reinterpret_cast<uint64_t>(&self),
                                 reinterpret_cast<uint64_t>(scalar), uint64_t{0} - 3, 0, 0},
                                stack);
  EXPECT_EQ(record.words,
            (std::vector<uint64_t>{4ull << PT_CALL_SEQUENCE_BITS, kTensorWord | 2 << 8,
                                   2 | 1ull << 32, 3 | 1ull << 32, 5 << 8 | abi::PT_VALUE_INT,
                                   static_cast<uint64_t>(int64_t{-768}) | abi::PT_VALUE_INT,
                                   42 << 8 | abi::PT_VALUE_INT}));
}

TEST_F(PatchInputsTest, NothingIsShownOfWhatIsNotThere) {
  abi::pt_argument optional = Argument(abi::PT_ARGUMENT_TENSOR, 0);
  optional.flag = abi::PT_ARGUMENT_IN_MEMORY;
  optional.flag_offset = 8;
  abi::pt_argument list = Argument(abi::PT_ARGUMENT_INTS, 2, 5);
  list.flag = abi::PT_ARGUMENT_NULL_IS_NONE;
  const abi::pt_signature signature =
      Signature({optional, list, Argument(abi::PT_ARGUMENT_TENSOR, 4),
                 Argument(abi::PT_ARGUMENT_INTS, 2, 3), Argument(abi::PT_ARGUMENT_TENSORS, 2, 3)});
  const uint64_t none[2] = {0xdead, 0};
  const uint64_t undefined = undefined_tensor.address();
  const Record record = CallOne(signature, {reinterpret_cast<uint64_t>(none), 0, 0,
                                            reinterpret_cast<uint64_t>(&undefined), 3});
  EXPECT_EQ(record.words, (std::vector<uint64_t>{5ull << PT_CALL_SEQUENCE_BITS, abi::PT_VALUE_OTHER,
                                                 abi::PT_VALUE_OTHER, abi::PT_VALUE_OTHER,
                                                 abi::PT_VALUE_LIST, abi::PT_VALUE_TENSORS}));
}

// What can be no address is not followed.
TEST_F(PatchInputsTest, WhatIsNoAddressIsSaidToBeUnread) {
  for (const auto kind :
       {abi::PT_ARGUMENT_TENSOR, abi::PT_ARGUMENT_SCALAR, abi::PT_ARGUMENT_STACK_VALUES,
        abi::PT_ARGUMENT_LIST, abi::PT_ARGUMENT_INT_VECTOR, abi::PT_ARGUMENT_TENSOR_VECTOR,
        abi::PT_ARGUMENT_SYMBOLIC_INT, abi::PT_ARGUMENT_TENSOR_ITEMS}) {
    for (const uint64_t address :
         {uint64_t{0}, uint64_t{8}, uint64_t{0x3ff0000000000000}, ~uint64_t{7},
          uint64_t{0x800000000000}, reinterpret_cast<uint64_t>(&kind) | 1}) {
      const Record record = CallOne(Signature({Argument(kind)}), {address, 0, 0, 0, 0});
      EXPECT_EQ(record.flags(), uint64_t{abi::PT_INPUTS_FAILED}) << kind << std::hex << address;
      EXPECT_EQ(record.words.size(), 1u);
    }
  }
}

// A list of tensors says of something else that it is one.
TEST_F(PatchInputsTest, ValuesAreTensorsByTheirTagsOnly) {
  const uint64_t type_object = 0x1234;
  const uint64_t values[4] = {0, 0, 0x1111, 5};
  const auto list = [&](size_t count) {
    return std::array<uint64_t, 6>{0,
                                   0,
                                   reinterpret_cast<uint64_t>(values),
                                   reinterpret_cast<uint64_t>(values + 2 * count),
                                   0,
                                   reinterpret_cast<uint64_t>(&type_object)};
  };
  abi::pt_signature signature = Signature({Argument(abi::PT_ARGUMENT_TENSOR_ITEMS)});
  signature.layout.tensor_vtable = type_object;
  for (const size_t count : {1, 2}) {
    const auto object = list(count);
    const uint64_t pointer = reinterpret_cast<uint64_t>(object.data());
    const uint64_t items[3] = {reinterpret_cast<uint64_t>(&pointer), 0, 1};
    const Record record = CallOne(signature, {reinterpret_cast<uint64_t>(items), 0, 0, 0, 0});
    EXPECT_EQ(record.flags(), count == 1 ? 0u : uint64_t{abi::PT_INPUTS_IMPLAUSIBLE});
  }
}

// What one record does not hold comes before the begin, in several.
TEST_F(PatchInputsTest, ManyTensorsComeInPieces) {
  const FakeTensor tensor({4, 5, 6});
  const std::vector<uint64_t> tensors(300, tensor.address());
  Call(Signature({Argument(abi::PT_ARGUMENT_TENSORS, 0, 2)}),
       {reinterpret_cast<uint64_t>(tensors.data()), tensors.size(), 0, 0, 0});
  const std::vector<Record> records = Drain();
  ASSERT_EQ(records.size(), 6u);
  std::vector<uint64_t> values;
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(records[i].head.kind, i == 0 ? abi::PT_INPUTS : abi::PT_INPUTS_MORE);
    EXPECT_EQ(records[i].words[0] >> 32, i == 0 ? 1201u : values.size());
    values.insert(values.end(), records[i].words.begin() + 1, records[i].words.end());
  }
  EXPECT_EQ(records[5].head.kind, abi::PT_SPAN_BEGIN);
  ASSERT_EQ(values.size(), 1201u);
  EXPECT_EQ(values[0], 300u << 8 | abi::PT_VALUE_TENSORS);
  for (size_t i = 0; i < 300; ++i) {
    EXPECT_EQ(values[1 + 4 * i], kTensorWord | 3 << 8);
    EXPECT_EQ(values[4 + 4 * i], 6 | 1ull << 32);
  }
  const Record cut = CallOne(Signature({Argument(abi::PT_ARGUMENT_TENSORS, 0, 2)}),
                             {reinterpret_cast<uint64_t>(tensors.data()), 10000, 0, 0, 0});
  EXPECT_EQ(cut.flags(), uint64_t{abi::PT_INPUTS_CUT});
}

// A signal handler that comes while its thread reads has no buffer: its operators begin all the
// same.
TEST_F(PatchInputsTest, ABufferIsOneCallsAtATime) {
  const abi::pt_signature signature = Signature({Argument(abi::PT_ARGUMENT_INT, 2)});
  EXPECT_EQ(CallOne(signature, {0, 1, 0, 0, 0}).words.size(), 2u);
  auto* const bytes = static_cast<std::byte*>(ring_at_);
  uint64_t buffers = 0;
  std::memcpy(&buffers, bytes + PATCH_RING_INPUTS, sizeof(buffers));
  std::vector<uint64_t*> busy;
  for (size_t i = 0; i < PATCH_SLOTS; ++i) {
    busy.push_back(reinterpret_cast<uint64_t*>(buffers + i * PATCH_INPUTS_BYTES));
    *busy.back() = 1;
  }
  EXPECT_EQ(CallOne(signature, {0, 1, 0, 0, 0}).flags(), uint64_t{abi::PT_INPUTS_CUT});
  for (uint64_t* word : busy) *word = 0;
  EXPECT_EQ(CallOne(signature, {0, 1, 0, 0, 0}).flags(), 0u);
}

TEST(RecorderTablesTest, HaveNoMoreThanSignaturesNeed) {
  std::vector<abi::pt_place> places(3);
  places[2].address = 77;
  std::vector<abi::pt_signature> signatures = {Signature({}),
                                               Signature({Argument(abi::PT_ARGUMENT_INT, 5)})};
  const RecorderTables tables(places, signatures);
  EXPECT_EQ(tables.place_count(), 3u);
  EXPECT_EQ(tables.signature_count(), 2u);
  abi::pt_place place{};
  std::memcpy(&place, tables.bytes().data() + 2 * sizeof(place), sizeof(place));
  EXPECT_EQ(place.address, 77u);
  uint32_t offsets[2];
  std::memcpy(offsets, tables.bytes().data() + tables.signatures_at(), sizeof(offsets));
  EXPECT_EQ(tables.SignatureAt(1), tables.signatures_at() + offsets[0]);
  EXPECT_EQ(tables.SignatureAt(2), tables.signatures_at() + offsets[1]);
  EXPECT_EQ(offsets[1] - offsets[0], offsetof(abi::pt_signature, arguments));
  EXPECT_EQ(tables.bytes().size(), tables.SignatureAt(2) + offsetof(abi::pt_signature, arguments) +
                                       sizeof(abi::pt_argument));
  EXPECT_EQ(std::memcmp(tables.bytes().data() + tables.SignatureAt(2), &signatures[1],
                        offsetof(abi::pt_signature, arguments) + sizeof(abi::pt_argument)),
            0);
}

}  // namespace
}  // namespace proftrace
