#include "userspace/decode/input_format.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string>

#include "bpf/abi/records.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

constexpr size_t kMostInputs = 4096;
constexpr size_t kMostDimensions = 64;
// TENSOR_LIST_DISPLAY_LENGTH_LIMIT (torch/csrc/profiler/util.cpp): longer lists are shown as [].
constexpr size_t kMostShownTensors = 30;

// caffe2::TypeMeta::name() by the number of the ScalarType (c10/core/ScalarType.h), which is only
// appended to.
constexpr std::string_view kTypeNames[] = {
    "unsigned char",
    "signed char",
    "short int",
    "int",
    "long int",
    "c10::Half",
    "float",
    "double",
    "c10::complex<c10::Half>",
    "c10::complex<float>",
    "c10::complex<double>",
    "bool",
    "c10::qint8",
    "c10::quint8",
    "c10::qint32",
    "c10::BFloat16",
    "c10::quint4x2",
    "c10::quint2x4",
    "c10::bits1x8",
    "c10::bits2x4",
    "c10::bits4x2",
    "c10::bits8",
    "c10::bits16",
    "c10::Float8_e5m2",
    "c10::Float8_e4m3fn",
    "c10::Float8_e5m2fnuz",
    "c10::Float8_e4m3fnuz",
    "short unsigned int",
    "unsigned int",
    "long unsigned int",
    "c10::dummy_uint1_7_t<1>",
    "c10::dummy_uint1_7_t<2>",
    "c10::dummy_uint1_7_t<3>",
    "c10::dummy_uint1_7_t<4>",
    "c10::dummy_uint1_7_t<5>",
    "c10::dummy_uint1_7_t<6>",
    "c10::dummy_uint1_7_t<7>",
    "c10::dummy_int1_7_t<1>",
    "c10::dummy_int1_7_t<2>",
    "c10::dummy_int1_7_t<3>",
    "c10::dummy_int1_7_t<4>",
    "c10::dummy_int1_7_t<5>",
    "c10::dummy_int1_7_t<6>",
    "c10::dummy_int1_7_t<7>",
    "c10::Float8_e8m0fnu",
    "c10::Float4_e2m1fn_x2",
};

// The texts of one argument, or of one element of a list.
struct Shown {
  std::string dims = "[]";
  std::string strides = "[]";
  std::string type;
  std::string concrete;
  std::string list_type;  // of the first tensor in a list
  bool is_list = false;
  bool is_well_formed = true;
};

Shown Malformed() {
  Shown shown;
  shown.is_well_formed = false;
  return shown;
}

Shown Number(std::string text) {
  Shown shown;
  shown.type = "Scalar";
  shown.concrete = std::move(text);
  return shown;
}

// Returns a complex number as `ostream << IValue` writes it.
std::string FormatComplex(uint64_t real_bits, uint64_t imaginary_bits) {
  const double imaginary = std::bit_cast<double>(imaginary_bits);
  return FormatTorchDouble(std::bit_cast<double>(real_bits)) + (imaginary >= 0 ? "+" : "-") +
         FormatTorchDouble(std::abs(imaginary)) + "j";
}

class InputReader {
 public:
  InputReader(std::span<const uint64_t> values, std::span<const uint64_t> doubles,
              const InputForm& form)
      : values_(values), doubles_(doubles), form_(form) {}

  bool at_end() const { return values_.empty(); }
  Shown Next() { return Next(/*is_element=*/false); }

 private:
  Shown Next(bool is_element);
  Shown Tensor(uint64_t header);
  Shown Scalars(uint64_t count);
  Shown Tensors(uint64_t count);

  // Returns the next `words` words; nullopt: there are fewer.
  std::optional<std::span<const uint64_t>> Take(size_t words) {
    if (values_.size() < words) return std::nullopt;
    const auto taken = values_.first(words);
    values_ = values_.subspan(words);
    return taken;
  }

  std::span<const uint64_t> values_;
  std::span<const uint64_t> doubles_;
  const InputForm& form_;
};

void AppendItem(const std::string& item, std::string* list) {
  if (list->size() > 1) *list += ", ";
  *list += item;
}

Shown InputReader::Tensor(uint64_t header) {
  const size_t dimensions = header >> 8 & 0xff;
  const size_t type = header >> 16 & 0xffff;
  const uint64_t flags = header >> 32;
  const bool is_packed = (flags & abi::PT_TENSOR_PACKED) != 0;
  const auto words = Take(is_packed ? dimensions : 2 * dimensions);
  if (!words || dimensions > kMostDimensions || type >= std::size(kTypeNames)) return Malformed();
  Shown shown;
  shown.type = kTypeNames[type];
  shown.dims = "[";
  shown.strides = "[";
  for (size_t i = 0; i < dimensions; ++i) {
    const uint64_t word = (*words)[i];
    const uint64_t size = is_packed ? word & 0xffffffff : word;
    const uint64_t stride = is_packed ? word >> 32 : (*words)[dimensions + i];
    AppendItem(std::to_string(static_cast<int64_t>(size)), &shown.dims);
    if ((flags & abi::PT_TENSOR_STRIDED) == 0) continue;
    AppendItem(std::to_string(static_cast<int64_t>(stride)), &shown.strides);
  }
  shown.dims += "]";
  shown.strides += "]";
  return shown;
}

Shown InputReader::Scalars(uint64_t count) {
  Shown shown;
  shown.is_list = true;
  if (count > values_.size()) return Malformed();
  std::string text = "[";
  for (uint64_t i = 0; i < count; ++i) {
    const Shown element = Next(/*is_element=*/true);
    if (!element.is_well_formed) return Malformed();
    AppendItem(element.concrete, &text);
  }
  if (form_.has_scalar_lists) shown.type = "ScalarList";
  shown.concrete = text + "]";
  return shown;
}

Shown InputReader::Tensors(uint64_t count) {
  Shown shown;
  shown.is_list = true;
  shown.type = "TensorList";
  if (count > values_.size()) return Malformed();
  std::string dims = "[";
  std::string strides = "[";
  bool is_whole = true;  // false: some are undefined or nested, or have symbolic sizes
  for (uint64_t i = 0; i < count; ++i) {
    const Shown element = Next(/*is_element=*/true);
    if (!element.is_well_formed) return Malformed();
    is_whole &= !element.type.empty();
    AppendItem(element.dims, &dims);
    AppendItem(element.strides, &strides);
    if (i == 0) shown.list_type = element.type;
  }
  if (!is_whole && form_.has_whole_lists) return Shown();
  if (!form_.has_nested_lists || count > kMostShownTensors) return shown;
  shown.dims = dims + "]";
  shown.strides = strides + "]";
  return shown;
}

Shown InputReader::Next(bool is_element) {
  const auto first = Take(1);
  if (!first) return Malformed();
  const uint64_t word = (*first)[0];
  const auto next = [this]() -> std::optional<uint64_t> {
    const auto taken = Take(1);
    return taken ? std::optional((*taken)[0]) : std::nullopt;
  };
  switch (static_cast<abi::pt_value>(word & 0xff)) {
    case abi::PT_VALUE_OTHER:
      return Shown();
    case abi::PT_VALUE_TENSOR:
      return Tensor(word);
    case abi::PT_VALUE_INT:
      return Number(std::to_string(static_cast<int64_t>(word) >> 8));
    case abi::PT_VALUE_WIDE_INT:
      if (const auto value = next()) return Number(std::to_string(static_cast<int64_t>(*value)));
      return Malformed();
    case abi::PT_VALUE_WIDE_UINT:
      if (const auto value = next()) return Number(std::to_string(*value));
      return Malformed();
    case abi::PT_VALUE_BOOL:
      return Number((word >> 8 & 1) != 0 ? "True" : "False");
    case abi::PT_VALUE_DOUBLE:
      if (const auto value = next())
        return Number(FormatTorchDouble(std::bit_cast<double>(*value)));
      return Malformed();
    case abi::PT_VALUE_COMPLEX:
      if (const auto value = Take(2)) return Number(FormatComplex((*value)[0], (*value)[1]));
      return Malformed();
    case abi::PT_VALUE_LIST:
      return is_element ? Malformed() : Scalars(word >> 8);
    case abi::PT_VALUE_TENSORS:
      return is_element ? Malformed() : Tensors(word >> 8);
    case abi::PT_VALUE_SPILLED: {
      const size_t index = word >> 8 & 0xff;
      if (index >= doubles_.size()) return Number("?");
      return Number(FormatTorchDouble(std::bit_cast<double>(doubles_[index])));
    }
    case abi::PT_VALUE_SYMBOLIC:
      return Number("?");
    case abi::PT_VALUE_TEXT:  // this and the next are of keyword values alone
    case abi::PT_VALUE_NULL:
      return Malformed();
  }
  return Malformed();
}

}  // namespace

InputForm InputFormOf(std::string_view torch_version) {
  const auto number = [](std::string_view text) {
    int value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  const size_t dot = torch_version.find('.');
  const int major = number(torch_version);
  const int minor = dot == std::string_view::npos ? 0 : number(torch_version.substr(dot + 1));
  InputForm form;
  form.has_strides = form.has_nested_lists = major > 2 || (major == 2 && minor >= 2);
  form.has_whole_lists = major >= 2;
  form.has_scalar_lists = major > 2 || (major == 2 && minor >= 1);
  return form;
}

std::optional<OperatorInputs> FormatInputs(std::span<const uint64_t> values, uint32_t count,
                                           std::span<const uint64_t> doubles,
                                           const InputForm& form) {
  if (count > kMostInputs) return std::nullopt;
  InputReader reader(values, doubles, form);
  OperatorInputs inputs{"[", "[", "[", "[", "[", ""};
  for (uint32_t i = 0; i < count; ++i) {
    const Shown shown = reader.Next();
    if (!shown.is_well_formed) return std::nullopt;
    AppendItem(shown.dims, &inputs.dims);
    AppendItem(shown.is_list ? "[]" : shown.dims, &inputs.shapes);
    AppendItem("\"" + shown.type + "\"", &inputs.types);
    AppendItem(shown.strides, &inputs.strides);
    AppendItem("\"" + shown.concrete + "\"", &inputs.concrete);
    if (inputs.list_type.empty()) inputs.list_type = shown.list_type;
  }
  if (!reader.at_end()) return std::nullopt;
  for (std::string* list :
       {&inputs.dims, &inputs.shapes, &inputs.types, &inputs.strides, &inputs.concrete}) {
    *list += "]";
  }
  if (!form.has_strides) inputs.strides.clear();
  return inputs;
}

}  // namespace proftrace
