#include "train/checkpoint_fixture.h"

#include <thread>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "base/rng.h"

namespace trireme::train {

void fill_by_name(const std::vector<NamedTensor>& tensors) {
  at::NoGradGuard no_grad;
  for (const NamedTensor& t : tensors) {
    std::vector<float> values(static_cast<std::size_t>(t.tensor.numel()));
    random_normal(stream_key(7, t.name), 0, values, 0.0, 1.0);
    t.tensor.detach().copy_(at::tensor(values).view(t.tensor.sizes()));
  }
}

void for_all_ranks(int num_ranks, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(num_ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace trireme::train
