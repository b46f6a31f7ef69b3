// What c10d and Gloo throw, as one line without source positions and backtraces.
#pragma once
#include <exception>
#include <string>

namespace trireme::comm {

std::string error_text(const std::exception& error);

}  // namespace trireme::comm
