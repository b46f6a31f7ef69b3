#include "base/edit_distance.h"

#include <algorithm>
#include <numeric>

namespace trireme {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string nearest_key(const std::string& key, const std::vector<std::string>& known) {
  const auto last = [](const std::string& k) { return k.substr(k.rfind('.') + 1); };
  const auto table = [](const std::string& k) { return k.substr(0, k.rfind('.') + 1); };
  std::string best;
  std::size_t smallest = std::max<std::size_t>(2, last(key).size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::string theirs = last(candidate), ours = last(key);
    const std::string& shorter = theirs.size() < ours.size() ? theirs : ours;
    const std::string& longer = theirs.size() < ours.size() ? ours : theirs;
    std::size_t distance = edit_distance(candidate, key);
    if (table(candidate) == table(key)) {
      distance = edit_distance(theirs, ours);
      // "experts" for "num_experts".
      if (shorter.size() >= 4 && longer.find(shorter) != std::string::npos)
        distance = std::min<std::size_t>(distance, 2);
    } else if (theirs == ours) {
      distance = 1;
    }
    if (distance < smallest) {
      smallest = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace trireme
