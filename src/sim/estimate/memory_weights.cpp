#include "sim/estimate/memory_weights.h"

#include "base/errors.h"

namespace trireme::sim {

WeightTable::WeightTable(const Setting& s, const model::Kernels& k)
    : setting(s), kernels(k), share_(rank_share(s, k, 1)) {}

const WeightTable::Entry& WeightTable::layer(int layer) {
  const model::Mixer mixer = setting.model.mixer(layer);
  const model::FeedForward feed_forward = setting.model.feed_forward(layer);
  const int compression = setting.model.compression(layer);
  for (int i = 0; i < num_entries_; ++i)
    if (entries_[i].mixer == mixer && entries_[i].feed_forward == feed_forward &&
        entries_[i].compression == compression)
      return entries_[i];
  TRIREME_CHECK(num_entries_ < capacity, "more kinds of layers than expected");
  Entry& entry = entries_[num_entries_];
  entry.number = num_entries_++;
  entry.mixer = mixer, entry.feed_forward = feed_forward, entry.compression = compression;
  entry.list = model::layer_weights(subject(), layer);
  entry.elements = model::elements(entry.list);
  entry.accumulated = model::accumulated_elements(entry.list);
  return entry;
}

}  // namespace trireme::sim
