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
    // Within the same table a typing error; with the same last part the wrong table.
    const std::size_t distance = last(candidate) == last(key)   ? 1
                                 : table(candidate) == table(key) ? edit_distance(last(candidate), last(key))
                                                                  : edit_distance(candidate, key);
    if (distance < smallest) {
      smallest = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace trireme
