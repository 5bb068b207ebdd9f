#include "userspace/base/nearest_word.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "userspace/base/shown_text.h"

namespace proftrace {
namespace {

// Longer words were not typed by hand, so that nothing is guessed for them.
constexpr size_t kLongestWord = 64;

// Returns the optimal string alignment distance: that of Damerau and Levenshtein, where each letter
// is changed at most once.
size_t SlipsBetween(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t other = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + other});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string_view NearestWord(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.empty() || word.size() > kLongestWord) return "";
  std::string_view nearest;
  // A third of the letters may be wrong, or one letter in a short word, but never all.
  size_t fewest = std::min(std::max<size_t>(word.size() / 3, 1) + 1, word.size());
  for (const std::string_view candidate : candidates) {
    if (candidate.size() > kLongestWord) continue;
    size_t slips = SlipsBetween(word, candidate);
    // A word that a user has only begun to type counts as one slip, however many letters are
    // missing.
    if (word.size() > 2 && candidate.starts_with(word)) slips = 1;
    if (slips >= fewest) continue;
    fewest = slips;
    nearest = candidate;
  }
  return nearest;
}

std::string NoneOf(std::string_view word, std::span<const std::string_view> candidates) {
  std::string text = "'" + ShownText(word) + "' is none of ";
  for (size_t i = 0; i < candidates.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::string(candidates[i]);
  }
  const std::string_view nearest = NearestWord(word, candidates);
  if (!nearest.empty()) text += "; did you mean " + std::string(nearest) + "?";
  return text;
}

}  // namespace proftrace
