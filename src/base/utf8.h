// Text from outside that goes into JSON or TOML must be UTF-8 (RFC 3629).
#pragma once
#include <cstddef>
#include <string_view>

namespace trireme {

// Where the first byte stands that belongs to no UTF-8 character; text.size() where there is none.
std::size_t first_not_utf8(std::string_view text);

}  // namespace trireme
