// The weights of a setting's layers, each kind of layer read off the description once.
#pragma once
#include "sim/estimate/described.h"

namespace trireme::sim {

// Lists of a setting's layers, each kind made once. Holds references.
class WeightTable {
 public:
  WeightTable(const Setting& setting, const model::Kernels& kernels);
  struct Entry {
    model::Mixer mixer;
    model::FeedForward feed_forward;
    int compression;
    int number;  // of this kind among the kinds
    model::WeightList list;
    model::WeightElements elements;
    double accumulated;  // elements of matrices whose gradients are accumulated where they are made
  };
  const Entry& layer(int layer);
  model::WeightList embedding() const { return model::embedding_weights(subject()); }
  model::WeightList head(bool own_matrix) const { return model::head_weights(subject(), own_matrix); }
  model::WeightList mtp() const { return model::mtp_weights(subject()); }

  const Setting& setting;
  const model::Kernels& kernels;

 private:
  model::Subject subject() const { return subject_of(setting, kernels, share_); }

  const model::Share share_;
  static constexpr int capacity = 12;
  model::Room<Entry, capacity> entries_;
  int num_entries_ = 0;
};

}  // namespace trireme::sim
