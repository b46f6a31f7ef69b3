// Sequences as tensors.
#pragma once
#include <c10/core/Device.h>

#include "nn/boundary.h"
#include "train/data/sequence_source.h"

namespace trireme::train {

// Sequences [first, first + count) of the source, on the device.
nn::Batch make_batch(const SequenceSource& source, std::int64_t first, std::int64_t count,
                     c10::Device device = c10::Device(c10::kCPU));

}  // namespace trireme::train
