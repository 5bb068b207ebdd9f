// Represents sums of values, which code makes of loaded words when it computes bounds of arrays and
// counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "symbols/x86/value_walk.h"

namespace proftrace {

// Gives sums numbers. A value with the base Value::kSum has the number of its sum, so that equal
// sums are equal values. An object is for one thread.
class ValueSums {
 public:
  // Returns left + right * factor (a power of two, or its negative).
  Value Add(const Value& left, const Value& right, int64_t factor);
  // Returns value / 2^shift. The division is taken to be exact, because code divides sizes of
  // arrays by the sizes of their elements.
  Value Divide(const Value& value, unsigned shift);

  // A value that is reached through an element of an array, whose index is in a register. `whole`
  // is the value for the index 0. The index counts `1 << shift` bytes and is added after
  // whole.offsets[step].
  struct Element {
    Value whole;
    unsigned index = 0;  // the register, by its hardware number
    unsigned shift = 0;
    size_t step = 0;
  };
  std::optional<Element> ElementOf(const Value& value) const;

 private:
  // A value whose last offset is 0, and its factor in units of 1 / kUnit.
  using Term = std::pair<Value, int64_t>;
  struct Sum {
    std::vector<Term> terms;  // ordered by value; no factor is 0
    int64_t constant = 0;     // in units of 1 / kUnit, too
  };
  bool TakeApart(const Value& value, Sum* sum) const;
  Value Number(Sum sum);

  std::vector<std::vector<Term>> sums_;
};

}  // namespace proftrace
