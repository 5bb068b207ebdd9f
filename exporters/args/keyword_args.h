// Keyword values of annotations as items of a row's args, as Kineto writes them.
#pragma once

#include <string>
#include <vector>

#include "userspace/model/operator_inputs.h"

namespace proftrace {

// `, "name": value` for each. Left out is what torch leaves out (empty texts, "stream" that is no
// integer), and a name that the row's args have for something else. Numbers that JSON has no form
// for are texts.
std::string KeywordArgs(const std::vector<KeywordValue>& keywords);

}  // namespace proftrace
