// What a user may have meant by a prefix of token files that names none.
#pragma once
#include <string>

namespace trireme::train {

// "; did you mean data/text_train?", or empty where nothing is found.
std::string prefix_hint(const std::string& prefix);

}  // namespace trireme::train
