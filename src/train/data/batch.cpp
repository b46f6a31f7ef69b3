#include "train/data/batch.h"

#include <ATen/ATen.h>

namespace trireme::train {

nn::Batch make_batch(const SequenceSource& source, std::int64_t first, std::int64_t count, c10::Device device) {
  const std::int64_t length = source.sequence_length();
  const auto integers = [&] { return at::empty({count, length}, at::kLong); };
  nn::Batch batch{.tokens_BS = integers(),
                  .targets_BS = integers(),
                  .weights_BS = at::empty({count, length}, at::kFloat),
                  .positions_BS = integers(),
                  .documents_BS = integers()};
  const auto row = [&](at::Tensor& t, std::int64_t i) {
    return std::span(t.data_ptr<std::int64_t>() + i * length, static_cast<std::size_t>(length));
  };
  for (std::int64_t i = 0; i < count; ++i)
    source.read(first + i, {.tokens = row(batch.tokens_BS, i),
                            .targets = row(batch.targets_BS, i),
                            .weights = std::span(batch.weights_BS.data_ptr<float>() + i * length,
                                                 static_cast<std::size_t>(length)),
                            .positions = row(batch.positions_BS, i),
                            .documents = row(batch.documents_BS, i)});
  for (at::Tensor* t :
       {&batch.tokens_BS, &batch.targets_BS, &batch.weights_BS, &batch.positions_BS, &batch.documents_BS})
    *t = t->to(device);
  return batch;
}

}  // namespace trireme::train
