#include "symbols/x86/value_sums.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

namespace proftrace {
namespace {

// The number that stands for 1 in a sum, so that halves and quarters of differences of addresses
// are whole numbers.
constexpr int64_t kUnit = 256;
// The most terms of a sum. Sums of bounds and counts have fewer.
constexpr size_t kMostTerms = 6;
constexpr size_t kMostSums = 4096;
constexpr unsigned kMostShift = 8;
constexpr int64_t kLargest = int64_t{1} << 40;

bool Before(const Value& a, const Value& b) {
  return std::tie(a.base, a.offsets) < std::tie(b.base, b.offsets);
}

bool IsLarge(int64_t number) { return number > kLargest || number < -kLargest; }

}  // namespace

bool ValueSums::TakeApart(const Value& value, Sum* sum) const {
  if (!value.known() || !value.is_whole() || value.offsets.empty()) return false;
  const int64_t last = value.offsets.back();
  if (value.base == Value::kSum && value.offsets.size() == 2) {
    const auto number = static_cast<size_t>(value.offsets[0]);
    if (number >= sums_.size()) return false;
    sum->terms = sums_[number];
  } else if (!value.is_number()) {
    Value term = value;
    term.offsets.back() = 0;
    sum->terms = {{std::move(term), kUnit}};
  }
  if (IsLarge(last)) return false;
  sum->constant = last * kUnit;
  return true;
}

Value ValueSums::Number(Sum sum) {
  std::erase_if(sum.terms, [](const Term& term) { return term.second == 0; });
  if (sum.constant % kUnit != 0 || sum.terms.size() > kMostTerms) return Value();
  const int64_t constant = sum.constant / kUnit;
  if (sum.terms.empty()) return Value{Value::kConstant, {constant}};
  if (sum.terms.size() == 1 && sum.terms[0].second == kUnit) {
    Value value = sum.terms[0].first;
    value.offsets.back() = constant;
    return value;
  }
  auto found = std::find(sums_.begin(), sums_.end(), sum.terms);
  if (found == sums_.end()) {
    if (sums_.size() == kMostSums) return Value();
    found = sums_.insert(found, std::move(sum.terms));
  }
  return Value{Value::kSum, {found - sums_.begin(), constant}};
}

Value ValueSums::Add(const Value& left, const Value& right, int64_t factor) {
  Sum sum;
  Sum more;
  if (!TakeApart(left, &sum) || !TakeApart(right, &more) || IsLarge(factor)) return Value();
  // Factors are at most 2^40, and products that overflow or become larger are not kept.
  const auto times = [factor](int64_t number, int64_t* product) {
    return !__builtin_mul_overflow(number, factor, product);
  };
  int64_t constant = 0;
  if (!times(more.constant, &constant) ||
      __builtin_add_overflow(sum.constant, constant, &sum.constant)) {
    return Value();
  }
  for (const Term& term : more.terms) {
    int64_t product = 0;
    if (!times(term.second, &product) || IsLarge(product)) return Value();
    const auto at =
        std::lower_bound(sum.terms.begin(), sum.terms.end(), term.first,
                         [](const Term& a, const Value& b) { return Before(a.first, b); });
    if (at != sum.terms.end() && at->first == term.first) {
      at->second += product;
      if (IsLarge(at->second)) return Value();
    } else {
      sum.terms.insert(at, {term.first, product});
    }
  }
  return Number(std::move(sum));
}

std::optional<ValueSums::Element> ValueSums::ElementOf(const Value& value) const {
  if (value.base != Value::kSum || !value.is_whole() || value.offsets.size() < 2) return {};
  const auto number = static_cast<size_t>(value.offsets[0]);
  if (number >= sums_.size() || sums_[number].size() != 2) return {};
  for (const size_t which : {size_t{0}, size_t{1}}) {
    const auto& [index, factor] = sums_[number][which];
    const auto& [array, times] = sums_[number][1 - which];
    const bool is_register =
        index.base >= 0 && index.base < Value::kAddress && index.offsets.size() == 1;
    if (!is_register || times != kUnit || factor < kUnit || factor % kUnit != 0 ||
        !std::has_single_bit(static_cast<uint64_t>(factor))) {
      continue;
    }
    // Where both terms are plain registers, either may be the index, so that this is not clear.
    if (array.base > Value::kAddress || (factor == kUnit && array.offsets.size() == 1)) continue;
    Element element;
    element.index = static_cast<unsigned>(index.base);
    element.shift = static_cast<unsigned>(std::countr_zero(static_cast<uint64_t>(factor / kUnit)));
    element.step = array.offsets.size() - 1;
    element.whole = array;
    element.whole.offsets.back() += value.offsets[1];
    element.whole.offsets.insert(element.whole.offsets.end(), value.offsets.begin() + 2,
                                 value.offsets.end());
    return element;
  }
  return {};
}

Value ValueSums::Divide(const Value& value, unsigned shift) {
  Sum sum;
  if (shift > kMostShift || !TakeApart(value, &sum)) return Value();
  const int64_t divisor = int64_t{1} << shift;
  if (sum.constant % divisor != 0) return Value();
  sum.constant /= divisor;
  for (Term& term : sum.terms) {
    if (term.second % divisor != 0) return Value();
    term.second /= divisor;
  }
  return Number(std::move(sum));
}

}  // namespace proftrace
