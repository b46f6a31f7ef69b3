// ASCII letters of a text in one case, for names that people write in either.
#pragma once
#include <string>

namespace trireme {

std::string lower_case(std::string text);
std::string upper_case(std::string text);

}  // namespace trireme
