// Uneven tasks over the threads of ATen's pool. A task that is worth a matmul; for loops over elements use
// at::parallel_for. Inside a task BLAS runs on one thread.
#pragma once
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace trireme::nn::cpu {

// run(task, thread) for each task in [0, count), thread in [0, at::get_num_threads()). Which thread runs a task, and
// when, differs from run to run, so tasks must write to different places.
template <class Run>
void parallel_tasks(std::int64_t count, const Run& run) {
  const std::int64_t threads = std::min<std::int64_t>(at::get_num_threads(), count);
  if (threads <= 1 || at::in_parallel_region()) {
    for (std::int64_t task = 0; task < count; ++task) run(task, 0);
    return;
  }
  std::atomic<std::int64_t> next{0};
  at::parallel_for(0, threads, 1, [&](std::int64_t, std::int64_t) {
    const int thread = at::get_thread_num();
    for (std::int64_t task = next++; task < count; task = next++) run(task, thread);
  });
}

// Rows are cut by their number alone, not by the number of threads: sums over tiles are then the same on any machine.
struct Tiles {
  std::int64_t rows = 0, size = 1, count = 0;

  explicit Tiles(std::int64_t num_rows, std::int64_t largest = 256)
      : rows(num_rows),
        size(std::clamp<std::int64_t>((num_rows / 8 + 15) / 16 * 16, 32, largest)),
        count((num_rows + size - 1) / size) {}
  std::int64_t begin(std::int64_t tile) const { return tile * size; }
  std::int64_t length(std::int64_t tile) const { return std::min(size, rows - tile * size); }
};

}  // namespace trireme::nn::cpu
