// Independent items over threads.
#pragma once
#include <cstddef>
#include <functional>

namespace trireme::search {

// Calls work(thread, begin, end) for chunks of [0, count), each item in one of them, from `threads` threads, or as many
// as there are chunks; a thread of one does all on the caller's. Returns when all are done; the first failure by number
// of thread is thrown again.
void share_out(std::size_t threads, std::size_t count, std::size_t chunk,
               const std::function<void(std::size_t thread, std::size_t begin, std::size_t end)>& work);

}  // namespace trireme::search
