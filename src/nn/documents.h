// Which tokens may see which: causal inside each document of a sequence. Padding (document -1) is a document of its
// own, so that every token sees at least itself.
#pragma once
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/boundary.h"

namespace trireme::nn {

struct DocumentSpan {
  std::int64_t sequence = 0;
  std::int64_t begin = 0;  // inside the sequence
  std::int64_t length = 0;
  bool operator==(const DocumentSpan&) const = default;
};

// The documents of a micro-batch in order; one span a sequence where Batch::documents_BS is undefined. Reads the ids on
// the host.
std::vector<DocumentSpan> document_spans(const Batch& batch);

// True where every sequence is one document: plain causal attention.
bool whole_sequences(const std::vector<DocumentSpan>& spans, std::int64_t sequences);

// Boolean (B, 1, S, S): query i may see key j.
at::Tensor attention_mask(const Batch& batch, at::Device device);

}  // namespace trireme::nn
