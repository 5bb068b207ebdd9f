// Finds the places of the arguments of at::_ops::X::call at its entry, and their kinds, which
// decide what torch shows of them. Both follow from the C++ types in the mangled name, the returns
// in the schema, and System V's calling convention for x86-64.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/torch/operator_schema.h"

namespace proftrace {

// The layout of torch's optionals in memory. A c10::optional (up to 2.1) has the flag and then the
// value; an optional ArrayRef without a value is a null pointer with a count. A std::optional has
// the value and then the flag.
enum class OptionalForm { kC10, kStd };

// Returns one place for each argument of the schema. nullopt: a type is not known, or the name and
// the schema do not agree. Measured with the headers of 1.13 and 2.0 to 2.15.
std::optional<std::vector<abi::pt_argument>> PlaceArguments(std::string_view symbol,
                                                            const OperatorSchema& schema,
                                                            OptionalForm form);

// Places the arguments of an operator's kernel, from its demangled C++ type ("at::Tensor
// (at::Tensor const&)"). The address of the result, if there is one, and the kernel and the
// dispatch keys (`before` words) come before the arguments.
std::optional<std::vector<abi::pt_argument>> PlaceKernelArguments(std::string_view demangled,
                                                                  OptionalForm form,
                                                                  unsigned before = 2);

// Returns the types of the parameters in the name of a demangled function.
std::vector<std::string> ParameterTypes(std::string_view demangled);

}  // namespace proftrace
