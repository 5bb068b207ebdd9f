// Writes keyword values of annotations as members of a row's args, as Kineto does.
#pragma once

#include <string>
#include <vector>

#include "userspace/model/operator_inputs.h"

namespace proftrace {

// Returns `"name": value, …` for the keywords. Keywords that torch leaves out (empty texts, a
// "stream" that is no integer) are left out, and so are names that the row's args use for something
// else. Infinities and NaN are written as texts, because JSON has no form for them.
std::string KeywordArgs(const std::vector<KeywordValue>& keywords);

}  // namespace proftrace
