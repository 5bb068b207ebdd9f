#include "userspace/aggregate/flops.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace proftrace {
namespace {

using Numbers = std::vector<int64_t>;

constexpr double kMultiplyAndAdd = 2;
// Doubles are exact up to this number. No real operator does more operations than this.
constexpr double kMostFlops = 9007199254740992.0;

nlohmann::json ParsedInput(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// Returns a list of integers; empty: the value is something else.
Numbers IntegersOf(const nlohmann::json& list) {
  Numbers numbers;
  if (!list.is_array()) return numbers;
  for (const nlohmann::json& item : list) {
    if (!item.is_number_integer()) return {};
    numbers.push_back(item.get<int64_t>());
  }
  return numbers;
}

Numbers ShapeAt(const nlohmann::json& dims, size_t index) {
  return dims.is_array() && index < dims.size() ? IntegersOf(dims[index]) : Numbers();
}

// Returns the value that a text such as "[2, 2]" or "1" has; null where there is none.
nlohmann::json ValueAt(const nlohmann::json& concrete, size_t index) {
  if (!concrete.is_array() || index >= concrete.size() || !concrete[index].is_string()) return {};
  return ParsedInput(concrete[index].get<std::string>());
}

// Returns whether the arguments up to `last` are tensors of known shapes, which torch checks before
// it counts. A tensor without a known shape (a nested tensor, symbolic sizes) has no type.
// TorchScript's operators have the whole stack of the interpreter as inputs, so numbers and lists
// may come first.
bool AreTensors(const OperatorInputs& inputs, const nlohmann::json& dims, size_t last) {
  const nlohmann::json types = ParsedInput(inputs.types);
  if (!types.is_array() || types.size() <= last) return false;
  if (!dims.is_array() || dims.size() <= last) return false;
  for (size_t i = 0; i <= last; ++i) {
    const std::string type = types[i].is_string() ? types[i].get<std::string>() : std::string();
    if (type.empty() || type == "Scalar" || type.ends_with("List")) return false;
  }
  return true;
}

double ProductOf(const Numbers& numbers) {
  double product = 1;
  for (const int64_t number : numbers) product *= static_cast<double>(number);
  return product;
}

// Returns the flops of mm and bmm: (…, n, k) times (…, k, m). With `batched`, both have the same
// first dimension.
double MatrixFlops(const Numbers& a, const Numbers& b, bool batched) {
  if (a.empty() || a.back() == 0) return 0;
  const double batch = batched ? static_cast<double>(a.front()) : 1;
  if (batch == 0) return 0;
  return kMultiplyAndAdd * ProductOf(a) / static_cast<double>(a.back()) / batch * ProductOf(b);
}

// conv2d(input, weight, bias, stride, padding, dilation, groups)
double ConvolutionFlops(const nlohmann::json& dims, const nlohmann::json& concrete) {
  const Numbers input = ShapeAt(dims, 0);
  const Numbers weight = ShapeAt(dims, 1);
  const Numbers stride = IntegersOf(ValueAt(concrete, 3));
  const Numbers padding = IntegersOf(ValueAt(concrete, 4));
  const Numbers dilation = IntegersOf(ValueAt(concrete, 5));
  const nlohmann::json groups = ValueAt(concrete, 6);
  if (input.size() != 4 || weight.size() != 4 || stride.size() != 2 || padding.size() != 2 ||
      dilation.size() != 2 || !groups.is_number_integer() || groups.get<int64_t>() <= 0) {
    return 0;
  }
  if (weight[1] <= 0) return 0;
  double flops = kMultiplyAndAdd * ProductOf(weight) * static_cast<double>(input[0]) *
                 static_cast<double>(input[1]) / static_cast<double>(weight[1]) /
                 static_cast<double>(groups.get<int64_t>());
  for (size_t i = 0; i < 2; ++i) {
    if (stride[i] <= 0) return 0;
    const int64_t reach = input[2 + i] + 2 * padding[i] - dilation[i] * (weight[2 + i] - 1) - 1;
    const int64_t places = reach / stride[i] + 1;
    flops *= static_cast<double>(places);
  }
  return flops;
}

}  // namespace

bool HasFlops(std::string_view name) {
  return name == "aten::mm" || name == "aten::addmm" || name == "aten::bmm" ||
         name == "aten::baddbmm" || name == "aten::mul" || name == "aten::add" ||
         name == "aten::conv2d";
}

int64_t FlopsOf(std::string_view name, const OperatorInputs& inputs) {
  if (!HasFlops(name)) return 0;
  const nlohmann::json dims = ParsedInput(inputs.dims);
  double flops = 0;
  if (name == "aten::conv2d") {
    if (AreTensors(inputs, dims, 1)) flops = ConvolutionFlops(dims, ParsedInput(inputs.concrete));
  } else if (name == "aten::mul" || name == "aten::add") {
    // A tensor without dimensions counts as one.
    if (AreTensors(inputs, dims, 0)) flops = ProductOf(ShapeAt(dims, 0));
  } else {
    const size_t left = name == "aten::addmm" || name == "aten::baddbmm" ? 1 : 0;
    const bool batched = name == "aten::bmm" || name == "aten::baddbmm";
    if (AreTensors(inputs, dims, left + 1)) {
      flops = MatrixFlops(ShapeAt(dims, left), ShapeAt(dims, left + 1), batched);
    }
  }
  return flops > 0 && flops <= kMostFlops ? static_cast<int64_t>(flops) : 0;
}

SpanFlops::SpanFlops(const Timeline& timeline) : timeline_(timeline) {
  for (const Label& label : timeline.labels()) {
    has_formula_.push_back(timeline.info().with_flops && HasFlops(label.name));
  }
}

int64_t SpanFlops::Of(SpanId id, const Span& span) {
  if (!has_formula_[Raw(span.label)]) return 0;
  const OperatorInputs* inputs = timeline_.inputs_of(id);
  if (inputs == nullptr) return 0;
  const uint64_t key =
      static_cast<uint64_t>(Raw(span.label)) << 32 | Raw(timeline_.columns().inputs.at(id));
  const auto [it, is_new] = known_.try_emplace(key, 0);
  if (is_new) it->second = FlopsOf(timeline_.label(span.label).name, *inputs);
  return it->second;
}

}  // namespace proftrace
