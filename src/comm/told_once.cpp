#include "comm/told_once.h"

#include <thread>

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace trireme::comm {

bool first_to_tell(c10d::Store& store, const std::string& text) {
  const bool first = store.add(fmt::format("told/text/{}", text), 1) == 1;
  store.add("told/asked", 1);
  return first;
}

void wait_until_asked(c10d::Store& store, int world, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (store.add("told/asked", 0) < world && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace trireme::comm
