#include "helpers.h"

namespace trireme::nn {

model::ModelSpec tiny_spec() {
  model::ModelSpec s;
  s.vocab_size = 99;
  s.hidden = 32;
  s.num_layers = 2;
  s.num_dense_layers = 1;
  s.dense_ffn = 37;
  s.init_std = 0.2;
  s.attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 8};
  s.moe.num_experts = 5;
  s.moe.expert_ffn = 37;
  s.moe.router.top_k = 2;
  return s;
}

model::ModelSpec medium_spec() {
  model::ModelSpec s = tiny_spec();
  s.vocab_size = 1000;
  s.hidden = 96;
  s.dense_ffn = 200;
  s.attention = {.num_heads = 6, .num_kv_heads = 2, .head_dim = 16};
  s.moe.num_experts = 8;
  s.moe.expert_ffn = 48;
  s.moe.router.top_k = 3;
  return s;
}

Batch make_batch(std::int64_t sequences, std::int64_t length, std::int64_t vocab,
                 const std::vector<std::int64_t>& document_lengths, std::uint64_t seed) {
  Batch batch;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  batch.tokens_BS = at::randint(0, vocab, {sequences, length}, generator, at::kLong);
  batch.targets_BS = at::randint(0, vocab, {sequences, length}, generator, at::kLong);
  batch.weights_BS = at::ones({sequences, length});
  batch.positions_BS = at::arange(length, at::kLong).expand({sequences, length}).contiguous();
  batch.documents_BS = at::zeros({sequences, length}, at::kLong);
  std::int64_t begin = 0, document = 0;
  for (std::int64_t n : document_lengths) {
    batch.positions_BS.narrow(1, begin, n).copy_(at::arange(n, at::kLong));
    batch.documents_BS.narrow(1, begin, n).fill_(document++);
    begin += n;
  }
  return batch;
}

void bind_gradients(Model& model) {
  for (Parameter* p : model.parameters())
    p->grad = at::zeros(p->value.sizes(),
                        p->value.options().dtype(p->value.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
}

std::unique_ptr<Model> make_model(const model::ModelSpec& spec, at::ScalarType dtype, bool reference,
                                  std::int64_t head_chunk_tokens) {
  ModelOptions options{.dtype = dtype, .head_chunk_tokens = head_chunk_tokens, .reference = reference};
  auto model = std::make_unique<Model>(spec, whole_model(spec), options);
  model->initialise(7);
  bind_gradients(*model);
  return model;
}

double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  const double difference = (x - y).norm().item<double>(), size = y.norm().item<double>();
  return size == 0 ? difference : difference / size;
}

Worst worst_gradient_error(Model& a, Model& b) {
  Worst worst;
  for (std::size_t i = 0; i < a.parameters().size(); ++i) {
    Parameter &p = *a.parameters()[i], &q = *b.parameters()[i];
    for (const Piece& piece : p.pieces) {
      const double error = relative_error(p.piece_grad(piece), q.piece_grad(piece));
      if (!(error <= worst.error)) worst = {error, piece.spec.name};  // a NaN counts as worst
    }
  }
  return worst;
}

}  // namespace trireme::nn
