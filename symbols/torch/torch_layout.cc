#include "symbols/torch/torch_layout.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "userspace/base/text.h"

namespace proftrace {
namespace {

// A range of versions with the same bits in DispatchKeySet and the same c10::Scalar
// (c10/core/DispatchKey.h, Scalar.h). A bit's number is that of its functionality plus the number
// of backends.
struct VersionRule {
  int major;
  int first_minor;
  int last_minor;
  uint64_t nested_keys;
  uint64_t unstrided_keys;  // Sparse, SparseCsr, Mkldnn
  OptionalForm optional_form;
  uint8_t object_header;
  uint8_t scalar_uint_tag;
  uint8_t scalar_complex_tag;
  uint8_t scalar_bool_tag;
};
constexpr VersionRule kVersions[] = {
    {1, 13, 13, 0x2000000, 0x1e00000, OptionalForm::kC10, 24, 0xff, 2, 3},
    {2, 0, 1, 0x4000000, 0x3c00000, OptionalForm::kC10, 24, 0xff, 2, 3},
    {2, 2, 2, 0x4000000, 0x3c00000, OptionalForm::kStd, 24, 0xff, 2, 3},
    {2, 3, 15, 0x2000000, 0x1c00000, OptionalForm::kStd, 16, 2, 3, 4},
};

// The first flag of a TensorImpl, as a bit number counted from data_type_ on. The flags lie between
// the device and key_set_, in the same order in 1.13 to 2.15 (c10/core/TensorImpl.h).
constexpr unsigned kFirstFlag = 40;
constexpr uint8_t kSymbolicBit = kFirstFlag + 12;
// The flags of the undefined tensor: contiguous, no access to its storage, non-overlapping; then
// metadata may change, policy for strides, none of its sizes is symbolic, policy of its own.
constexpr uint64_t kFlagsMask = 0x7fff;
constexpr uint64_t kUndefinedFlags = 0x2543;

constexpr uint16_t kKeySetOffsets[] = {168, 176, 184};
// The words from sizes_and_strides_ to key_set_, as in bpf/shared/inputs.bpf.h.
constexpr size_t kTensorWords = 15;
constexpr uint64_t kKeySetWord = 14;
// ScalarType::Undefined comes behind all types: it is 18 in 1.13 and 47 in 2.15.
constexpr uint16_t kFewestTypes = 16;
constexpr uint16_t kMostTypes = 64;
constexpr uint32_t kBoolTagWithUint = 10;  // UInt was put before it (2.11)
constexpr uint8_t kUintTag = 6;

// Returns the number of ScalarType::Undefined, where the object has this layout.
std::optional<uint16_t> UndefinedTypeAt(const TargetMemory& memory, uint64_t object,
                                        uint16_t key_set_offset) {
  uint64_t words[kTensorWords];
  if (!memory.Read(object + key_set_offset - 8 * kKeySetWord, words, sizeof(words))) return {};
  const uint16_t type = static_cast<uint16_t>(words[13]);
  const bool is_it = words[0] == 1 && words[1] == 0 && words[6] == 1 && words[11] == 0 &&
                     words[12] == 0 && (words[13] >> kFirstFlag & kFlagsMask) == kUndefinedFlags &&
                     type >= kFewestTypes && type < kMostTypes;
  return is_it ? std::optional<uint16_t>(type) : std::nullopt;
}

TorchLayout Refuse(std::string reason) {
  TorchLayout result;
  result.refusal = std::move(reason);
  return result;
}

}  // namespace

TorchLayout FindTorchLayout(const TargetMemory& memory, std::string_view torch_version,
                            uint64_t undefined_tensor, const SchemaReading& schemas) {
  const std::vector<std::string_view> parts = SplitText(torch_version, ".", /*skip_empty=*/false);
  const int major = parts.empty() ? 0 : ParseNumber<int>(parts[0]).value_or(0);
  const int minor = parts.size() < 2 ? 0 : ParseNumber<int>(parts[1]).value_or(0);
  const auto* rule =
      std::find_if(std::begin(kVersions), std::end(kVersions), [&](const VersionRule& version) {
        return version.major == major && version.first_minor <= minor &&
               minor <= version.last_minor;
      });
  if (rule == std::end(kVersions)) {
    return Refuse(
        absl::StrCat("the layout of tensors in torch ",
                     torch_version.empty() ? "of an unknown version" : std::string(torch_version),
                     " is not known"));
  }
  if (undefined_tensor == 0) return Refuse("c10::UndefinedTensorImpl was not found");
  TorchLayout result;
  result.optional_form = rule->optional_form;
  abi::pt_torch_layout& layout = result.layout;
  int found = 0;
  for (const uint16_t offset : kKeySetOffsets) {
    const auto type = UndefinedTypeAt(memory, undefined_tensor, offset);
    if (!type) continue;
    ++found;
    layout.key_set_offset = offset;
    layout.dtypes = *type;
  }
  if (found != 1) {
    return Refuse("the undefined tensor does not look as it does in this version of torch");
  }
  if (schemas.bool_tag == 0 || schemas.tensor_type == 0) {
    return Refuse("the kinds of values in boxed calls are not known");
  }
  layout.undefined_tensor = undefined_tensor;
  const auto tensor_vtable = memory.ReadWord(schemas.tensor_type);
  if (!tensor_vtable) return Refuse("the type of tensors in boxed calls cannot be read");
  layout.tensor_vtable = *tensor_vtable;
  layout.nested_keys = rule->nested_keys;
  layout.unstrided_keys = rule->unstrided_keys;
  layout.scalar_uint_tag = rule->scalar_uint_tag;
  layout.scalar_complex_tag = rule->scalar_complex_tag;
  layout.scalar_bool_tag = rule->scalar_bool_tag;
  layout.value_bool_tag = static_cast<uint8_t>(schemas.bool_tag);
  layout.value_uint_tag = schemas.bool_tag == kBoolTagWithUint ? kUintTag : 0;
  layout.object_header = rule->object_header;
  layout.symbolic_bit = kSymbolicBit;
  return result;
}

}  // namespace proftrace
