// Colours of the page, that readers who confuse red and green tell apart, too.
#pragma once
#include <string>
#include <vector>

namespace trireme::report {

// One a kind of action ("forward attention", "all_to_all backward combine"), as "#rrggbb", in the kinds' order: a hue for what
// is done (forward blue, backward vermilion, exchanges green ...), from dark to light over the kinds that share it. No two are
// equal.
std::vector<std::string> colours_of(const std::vector<std::string>& kinds);

// Of the parts of a stack of memory, by place: Okabe and Ito's palette ("Color Universal Design", 2008).
const std::vector<std::string>& palette();

}  // namespace trireme::report
