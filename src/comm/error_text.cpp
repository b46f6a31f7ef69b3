#include "comm/error_text.h"

#include <new>
#include <system_error>

#include <c10/util/Exception.h>

namespace trireme::comm {

std::string error_text(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  // What std::thread throws where the stack of one more finds no room.
  if (const auto* system = dynamic_cast<const std::system_error*>(&error);
      system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    return "out of memory: the system starts no further thread (is there an ulimit -v or -u?)";
  std::string text = error.what();
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error)) text = torch->what_without_backtrace();
  text = text.substr(0, text.find('\n'));
  if (const std::string prefix = "filesystem error: "; text.rfind(prefix, 0) == 0) text = text.substr(prefix.size());
  // Gloo begins with "[path/pair.cc:123] ".
  if (!text.empty() && text.front() == '[') {
    const auto end = text.find("] ");
    if (end != std::string::npos && text.find(".cc:") < end) text = text.substr(end + 2);
  }
  // And ends some with advice.
  return text.substr(0, text.find(". This is typically caused by"));
}

}  // namespace trireme::comm
