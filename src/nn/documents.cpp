#include "nn/documents.h"

#include <ATen/ATen.h>

namespace trireme::nn {

std::vector<DocumentSpan> document_spans(const Batch& batch) {
  const std::int64_t num_sequences = batch.tokens_BS.size(0), length = batch.tokens_BS.size(1);
  std::vector<DocumentSpan> spans;
  if (!batch.documents_BS.defined()) {
    for (std::int64_t b = 0; b < num_sequences; ++b) spans.push_back({b, 0, length});
    return spans;
  }
  const at::Tensor host = batch.documents_BS.to(at::kCPU, at::kLong).contiguous();
  const std::int64_t* ids = host.const_data_ptr<std::int64_t>();
  for (std::int64_t b = 0; b < num_sequences; ++b) {
    const std::int64_t* row = ids + b * length;
    std::int64_t begin = 0;
    for (std::int64_t s = 1; s <= length; ++s) {
      if (s < length && row[s] == row[begin]) continue;
      spans.push_back({b, begin, s - begin});
      begin = s;
    }
  }
  return spans;
}

bool whole_sequences(const std::vector<DocumentSpan>& spans, std::int64_t sequences) {
  return static_cast<std::int64_t>(spans.size()) == sequences;
}

at::Tensor attention_mask(const Batch& batch, at::Device device) {
  const std::int64_t length = batch.tokens_BS.size(1);
  const at::Tensor causal = at::ones({length, length}, at::TensorOptions().device(device).dtype(at::kBool)).tril();
  if (!batch.documents_BS.defined()) return causal.expand({batch.tokens_BS.size(0), 1, length, length});
  const at::Tensor ids = batch.documents_BS.to(device);
  return (ids.unsqueeze(2).eq(ids.unsqueeze(1)) & causal).unsqueeze(1);
}

}  // namespace trireme::nn
