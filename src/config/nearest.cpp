#include "config/nearest.h"

#include <algorithm>
#include <cctype>

namespace ampctl::config {
namespace {

constexpr size_t kLongestWord = 64;

std::string folded(const std::string& word) {
  std::string result;
  for (const char c : word) {
    result += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

// Damerau-Levenshtein distance in its optimal string alignment form.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> table(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) table[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) table[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      table[i][j] = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
    }
  }
  return table[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest(const std::string& word, const std::vector<std::string>& known) {
  if (word.empty() || word.size() > kLongestWord) return std::nullopt;
  const std::string wanted = folded(word);
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(1, wanted.size() / 3) + 1;
  for (const auto& candidate : known) {
    const std::string other = folded(candidate);
    const bool shortened =
        wanted.size() >= 3 && (other.starts_with(wanted) || wanted.starts_with(other + "_"));
    const size_t found = shortened ? 1 : distance(wanted, other);
    if (found < best_distance) {
      best = candidate;
      best_distance = found;
    }
  }
  return best;
}

}  // namespace ampctl::config
