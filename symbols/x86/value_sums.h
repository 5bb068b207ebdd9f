// Sums of values: what code that computes bounds of arrays and counts makes of the words that it
// has loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "symbols/x86/value_walk.h"

namespace proftrace {

// Numbers sums, which are Value::kSum with their number: equal sums are equal values. For one
// thread.
class ValueSums {
 public:
  // Returns left + right * factor (a power of two, or its negative).
  Value Add(const Value& left, const Value& right, int64_t factor);
  // Returns value / 2^shift. Code divides sizes of arrays by those of their elements, which they
  // are multiples of: the division is taken for exact.
  Value Divide(const Value& value, unsigned shift);

  // What is reached through an element of an array whose number is in a register: `whole` is the
  // way from the array on without the index, which counts `1 << shift` bytes and is added after
  // whole.offsets[step].
  struct Element {
    Value whole;
    unsigned index = 0;  // the register, by its hardware number
    unsigned shift = 0;
    size_t step = 0;
  };
  std::optional<Element> ElementOf(const Value& value) const;

 private:
  // A value whose last offset is 0, and its factor in parts of kUnit.
  using Term = std::pair<Value, int64_t>;
  struct Sum {
    std::vector<Term> terms;  // by value, none of them 0
    int64_t constant = 0;     // in parts of kUnit, too
  };
  bool TakeApart(const Value& value, Sum* sum) const;
  Value Number(Sum sum);

  std::vector<std::vector<Term>> sums_;
};

}  // namespace proftrace
