#include "search/layouts/share_out.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace trireme::search {

void share_out(std::size_t threads, std::size_t count, std::size_t chunk,
               const std::function<void(std::size_t, std::size_t, std::size_t)>& work) {
  const std::size_t chunks = (count + chunk - 1) / chunk;
  const std::size_t used = std::min(threads, chunks);
  if (used <= 1) return work(0, 0, count);
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failed(used);
  std::vector<std::thread> running;
  const auto take_chunks = [&](std::size_t t) {
    try {
      for (std::size_t c; (c = next++) < chunks;) work(t, c * chunk, std::min(count, (c + 1) * chunk));
    } catch (...) {
      failed[t] = std::current_exception();
    }
  };
  try {
    for (std::size_t t = 0; t < used; ++t) running.emplace_back(take_chunks, t);
  } catch (const std::system_error&) {
    // A limit on threads or memory: fewer do the same work, or this one alone.
    if (running.empty()) take_chunks(0);
  }
  for (std::thread& thread : running) thread.join();
  for (const std::exception_ptr& f : failed)
    if (f) std::rethrow_exception(f);
}

}  // namespace trireme::search
