#include "userspace/steps/step_item.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace proftrace {
namespace {

template <size_t kCount>
bool IsOneOf(std::string_view name, const std::array<std::string_view, kCount>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 5> kUpdates = {"aten::add_", "aten::sub_", "aten::addcdiv_",
                                                      "aten::addcmul_", "aten::lerp_"};

constexpr std::array<std::string_view, 6> kReads = {"aten::item",       "aten::_local_scalar_dense",
                                                    "aten::is_nonzero", "aten::equal",
                                                    "aten::cpu",        "aten::resolve_conj"};

constexpr std::array<std::string_view, 5> kReductions = {"aten::mean", "aten::sum", "aten::stack",
                                                         "aten::isnan", "aten::isfinite"};

constexpr std::array<std::string_view, 19> kSources = {
    "aten::randn", "aten::rand",       "aten::randint",     "aten::randperm",   "aten::zeros",
    "aten::ones",  "aten::full",       "aten::arange",      "aten::empty",      "aten::tensor",
    "aten::eye",   "aten::from_file",  "aten::_pin_memory", "aten::pin_memory", "aten::linspace",
    "aten::range", "aten::new_tensor", "aten::lift_fresh",  "aten::embedding"};

constexpr std::array<std::string_view, 4> kSamples = {"aten::multinomial", "aten::normal",
                                                      "aten::bernoulli", "aten::exponential_"};

constexpr std::array<std::string_view, 9> kViews = {
    "aten::view",   "aten::reshape",   "aten::flatten", "aten::squeeze",    "aten::unsqueeze",
    "aten::select", "aten::unflatten", "aten::to",      "aten::resolve_neg"};

// Losses whose names do not contain "loss".
constexpr std::array<std::string_view, 4> kLosses = {"aten::binary_cross_entropy",
                                                     "aten::binary_cross_entropy_with_logits",
                                                     "aten::kl_div", "aten::nll_loss_nd"};

// Returns whether the operator returns the place of the best of several values. Some overloads of
// aten::max only return the largest value, or the larger one of two.
bool IsChoice(std::string_view name, std::string_view overload_name) {
  if (name == "aten::max") return overload_name == "dim" || overload_name == "names_dim";
  return name == "aten::argmax" || name == "aten::topk";
}

}  // namespace

ItemClass ClassifyItem(std::string_view name, std::string_view overload_name, bool is_annotation,
                       bool is_autograd) {
  if (is_annotation) {
    if (name.starts_with("Optimizer.step#")) return ItemClass::kOptimizerStep;
    if (name.starts_with("Optimizer.zero_grad#")) return ItemClass::kZeroGrad;
    if (name.starts_with("enumerate(DataLoader)#")) return ItemClass::kLoaderNext;
    if (name.starts_with("ProfilerStep#")) return ItemClass::kProfilerStep;
    return ItemClass::kAnnotation;
  }
  if (is_autograd) {
    return name.ends_with("AccumulateGrad") ? ItemClass::kAccumulate : ItemClass::kBackward;
  }
  if (name.starts_with("aten::_foreach_") || name.starts_with("aten::_fused_") ||
      IsOneOf(name, kUpdates)) {
    return ItemClass::kUpdate;
  }
  if (IsOneOf(name, kReads)) return ItemClass::kRead;
  if (name == "aten::detach") return ItemClass::kDetach;
  if (IsOneOf(name, kReductions)) return ItemClass::kReduce;
  if (IsOneOf(name, kSources)) return ItemClass::kSource;
  if (name == "aten::random_") return ItemClass::kDraw;
  if (IsOneOf(name, kSamples)) return ItemClass::kSample;
  if (IsChoice(name, overload_name)) return ItemClass::kChoice;
  if (IsOneOf(name, kViews)) return ItemClass::kView;
  if (name.ends_with("_loss") || IsOneOf(name, kLosses)) return ItemClass::kLoss;
  return ItemClass::kOther;
}

}  // namespace proftrace
