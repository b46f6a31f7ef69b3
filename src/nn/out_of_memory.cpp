#include "nn/out_of_memory.h"

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <system_error>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "base/units.h"
#include "nn/counting_allocator.h"

namespace trireme::nn {
namespace {

// c10 has a type for accelerators' allocators only; the others are known by their words.
bool tells_of_memory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  const std::string text = error.what_without_backtrace();
  for (const char* words : {"not enough memory", "can't allocate memory", "Cannot allocate memory", "Storage size calculation overflowed"})
    if (text.find(words) != std::string::npos) return true;
  return false;
}

// What std::thread throws: the stack of another thread found no room (or ulimit -u none for another thread).
bool starts_no_thread(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  return system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
}

bool tells_of_memory(const std::exception& error) {
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error)) return tells_of_memory(*torch);
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) return system->code() == std::errc::not_enough_memory || starts_no_thread(error);
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr || dynamic_cast<const std::length_error*>(&error) != nullptr;
}

// "... you tried to allocate 4294967296 bytes. Error code 12 ..."
std::optional<double> bytes_asked_for(const std::string& text) {
  constexpr std::string_view before = "tried to allocate ";
  const std::size_t at = text.find(before);
  if (at == std::string::npos) return {};
  char* end = nullptr;
  const char* begin = text.c_str() + at + before.size();
  const double bytes = std::strtod(begin, &end);
  // CUDA's allocator writes "2.00 GiB".
  const std::string_view unit(end);
  const double scale = unit.starts_with(" GiB") ? GiB : unit.starts_with(" MiB") ? MiB : unit.starts_with(" KiB") ? KiB : 1;
  return end == begin ? std::nullopt : std::optional(bytes * scale);
}

std::string size(double bytes) {
  return bytes < GiB ? fmt::format("{:.1f} MiB", bytes / MiB) : fmt::format("{:.2f} GiB", bytes / GiB);
}

}  // namespace

std::optional<std::string> out_of_memory(const std::exception& error) {
  if (!tells_of_memory(error)) return {};
  const auto asked = bytes_asked_for(error.what());
  return fmt::format("out of memory: {}{}this rank's tensors hold {}, at most so far {}",
                     starts_no_thread(error) ? "the system starts no further thread (is there an ulimit -v or -u?); " : "",
                     asked ? fmt::format("{} more were asked for; ", size(*asked)) : "",
                     size(static_cast<double>(current_tensor_bytes())), size(static_cast<double>(peak_tensor_bytes())));
}

}  // namespace trireme::nn
