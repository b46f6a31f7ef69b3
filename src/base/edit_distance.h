// Suggestions for a mistyped name.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Levenshtein distance: insertions, deletions and substitutions.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The dotted key that was probably meant: the one with the smallest distance, up to a third of the last part's length
// (at least 2). The same last part in another table counts as 1, a part of the name as at most 2. Empty when none is
// near.
std::string nearest_key(const std::string& key, const std::vector<std::string>& known);

}  // namespace trireme
