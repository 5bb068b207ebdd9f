// A process that means harm, and reads of what its function is called with: every call ends in a
// record that says what was there, or in one that says that it was not read. This process is the
// hostile one: it calls a probed function of its own.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/decode/input_format.h"

// A push comes first: where the probe is.
extern "C" void HostileCall(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f);

namespace proftrace {

inline constexpr uint16_t kSite = 7;
inline constexpr uint16_t kKeySetOffset = 168;
inline constexpr uint64_t kTensorVtable = 0x7654321;
inline constexpr uint8_t kBoolTag = 9;
inline constexpr uint64_t kListTag = kBoolTag + 4;

inline abi::pt_torch_layout Layout() {
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

inline constexpr uint64_t kUnmapped = 0xdead0000;
inline constexpr uint64_t kKernelAddress = 0xffff888000000000;
inline constexpr uint64_t kNotCanonical = 0x8000000000000000;

// What came of one call.
struct Answer {
  abi::pt_inputs_record head{};
  std::vector<uint64_t> values;
  abi::pt_inputs_record keyword_head{};  // of its PT_KEYWORDS; of no kind where it has none
  std::vector<uint64_t> keyword_values;

  bool has_keywords() const { return keyword_head.head.kind == abi::PT_KEYWORDS; }
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
  void AttachRow(const abi::pt_argument& argument, uint8_t dict_kind = 0) {
    abi::pt_signature signature{};
    signature.layout = Layout();
    signature.layout.python_dict_kind = dict_kind;
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
      } else if (head.kind == abi::PT_KEYWORDS) {
        std::memcpy(&answer.keyword_head, record.data(), PT_INPUTS_HEAD_BYTES);
      }
      std::vector<uint64_t>& values = answer.has_keywords() ? answer.keyword_values : answer.values;
      const size_t words = (record.size() - PT_INPUTS_HEAD_BYTES) / 8;
      const size_t before = values.size();
      values.resize(before + words);
      std::memcpy(values.data() + before, record.data() + PT_INPUTS_HEAD_BYTES, words * 8);
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

  static inline std::unique_ptr<BpfPrograms> programs_;
  LinkSet links_;
};

}  // namespace proftrace
