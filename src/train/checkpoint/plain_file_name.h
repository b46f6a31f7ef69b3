// Indices name files beside themselves. A name with a folder in it, or an absolute one, would read what nobody meant.
#pragma once
#include <string>

namespace trireme::train {

inline bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace trireme::train
