// Text from outside (a path, a key, a value, another library's words) as it may stand in a message on a terminal: one line,
// valid UTF-8, no control codes.
#pragma once
#include <string>
#include <string_view>

namespace trireme {

// Control characters (C0, DEL, C1), line and paragraph separators, and marks that turn the direction of writing become
// escapes: \n, \t, \x1b, \u202e. A byte that belongs to no UTF-8 character becomes \xff. What was printable stays as it is,
// backslashes included.
std::string printable(std::string_view text);

}  // namespace trireme
