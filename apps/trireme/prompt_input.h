// The text of prompts from files and from standard input.
#pragma once
#include <cstddef>
#include <string>

namespace trireme::apps {

// Far more than the sequences of any model: what is longer never ends, or is no prompt.
inline constexpr std::size_t most_prompt_bytes = std::size_t{16} << 20;

// All of it. A file may be a pipe; what sends nothing for two seconds is waited for with a word. ConfigError where it is
// absent, a folder, unreadable, or longer than most_prompt_bytes.
std::string read_prompt_file(const std::string& file);
// The same of standard input, which may not be a terminal.
std::string read_prompt_input();

}  // namespace trireme::apps
