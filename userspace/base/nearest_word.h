// Guesses what a mistyped word was meant to be.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace proftrace {

// Returns the candidate from which `word` differs by the fewest slips; of several, the first. A
// slip is a letter too many, a missing letter, a wrong letter, or two letters that have changed
// places. Empty: no candidate is near.
std::string_view NearestWord(std::string_view word, std::span<const std::string_view> candidates);

// Says "'bfp' is none of bpf, patch; did you mean bpf?". The question is left out where no
// candidate is near.
std::string NoneOf(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace proftrace
