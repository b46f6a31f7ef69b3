#include <ATen/ATen.h>

#include "base/rng.h"
#include "parallel/tiny_run.h"

namespace trireme::testing {

nn::Batch tiny_batch(const plan::RunSpec& run, int step, std::int64_t first, std::int64_t count) {
  const std::int64_t length = run.batch.sequence_length;
  nn::Batch batch;
  batch.tokens_BS = at::empty({count, length}, at::kLong);
  batch.targets_BS = at::zeros({count, length}, at::kLong);
  batch.weights_BS = at::zeros({count, length}, at::kFloat);
  batch.positions_BS = at::zeros({count, length}, at::kLong);
  batch.documents_BS = at::full({count, length}, -1, at::kLong);
  auto tokens = batch.tokens_BS.accessor<std::int64_t, 2>(), targets = batch.targets_BS.accessor<std::int64_t, 2>(),
       positions = batch.positions_BS.accessor<std::int64_t, 2>(),
       documents = batch.documents_BS.accessor<std::int64_t, 2>();
  auto weights = batch.weights_BS.accessor<float, 2>();
  const std::uint64_t key = stream_key(17, "tiny batch");
  for (std::int64_t s = 0; s < count; ++s) {
    const std::int64_t global = step * run.batch.global_batch + first + s;
    const auto draw = [&](std::int64_t what) {
      return random_bits(key, static_cast<std::uint64_t>(global * 1000 + what));
    };
    const std::int64_t used = length - static_cast<std::int64_t>(draw(999) % 3);
    const std::int64_t boundary = 1 + static_cast<std::int64_t>(draw(998) % static_cast<std::uint64_t>(used - 1));
    for (std::int64_t t = 0; t < length; ++t) {
      tokens[s][t] = static_cast<std::int64_t>(draw(t) % static_cast<std::uint64_t>(run.model.vocab_size));
      if (t >= used) continue;
      documents[s][t] = t < boundary ? 0 : 1;
      positions[s][t] = t < boundary ? t : t - boundary;
      targets[s][t] = (7 * tokens[s][t] + 3) % run.model.vocab_size;  // something to learn
      weights[s][t] = t + 1 != boundary && t + 1 != used ? 1.0f : 0.0f;
    }
  }
  return batch;
}

}  // namespace trireme::testing
