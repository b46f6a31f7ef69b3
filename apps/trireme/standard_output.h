// Standard output, where every write is looked at: a full disk or a reader that has gone is known when it happens, with
// the system's reason, and not once everything else is done.
#pragma once
#include <stdexcept>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace trireme::apps {

class OutputError : public std::system_error {
 public:
  explicit OutputError(int error) : std::system_error(error, std::generic_category(), "cannot write the output") {}
  // A pipe whose reader has ended, as `head` does.
  bool reader_has_gone() const { return code() == std::errc::broken_pipe; }
};

// Writes and flushes. OutputError. Until ignore_gone_readers() a reader that has gone ends the process by SIGPIPE.
void write_output(std::string_view text);

template <class... Values>
void print_output(fmt::format_string<Values...> format, Values&&... values) {
  write_output(fmt::format(format, std::forward<Values>(values)...));
}

// For what has more to do than to show text: writing to a pipe without a reader is an error from here on.
void ignore_gone_readers();

}  // namespace trireme::apps
