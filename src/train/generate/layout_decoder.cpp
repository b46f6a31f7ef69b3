#include "train/generate/layout_decoder.h"

#include <numeric>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "base/errors.h"
#include "nn/extend.h"
#include "nn/fresh.h"

// Legend: T new tokens, D hidden, R routed rows, E experts, V vocabulary.
namespace trireme::train {

using model::Segment;

plan::Mesh generation_mesh(const model::ModelSpec& model, int pp, int ep) {
  const auto refuse = [](const char* key, int value, const std::string& allowed) {
    throw ConfigError({.key = key, .value = fmt::format("{}", value), .allowed = allowed});
  };
  if (pp < 1 || pp > model.num_layers)
    refuse("--pp", pp, fmt::format("from 1 to the model's {} layers", model.num_layers));
  const int experts = model.moe.num_experts;
  if (ep < 1 || (ep > 1 && (experts == 0 || experts % ep != 0)))
    refuse("--ep", ep,
           experts == 0 ? "1: the model has no experts" : fmt::format("a divisor of the model's {} experts", experts));
  return {.pp = pp, .dp = ep, .ep = ep};
}

nn::Hosted hosted_for_generation(const model::ModelSpec& model, const plan::Mesh& mesh, int rank) {
  const int stage = mesh.pp_index(rank);
  const int first = model.num_layers * stage / mesh.pp, last = model.num_layers * (stage + 1) / mesh.pp;
  nn::Hosted out{
      .layers = {.first_layer = first, .num_layers = last - first, .embed = stage == 0, .head = stage == mesh.pp - 1}};
  const int local = model.moe.num_experts / mesh.ep;
  for (int e = 0; e < local; ++e) out.experts.push_back(mesh.ep_index(rank) * local + e);
  return out;
}

LayoutDecoder::LayoutDecoder(nn::Model& part, const plan::Mesh& mesh, comm::Communicator& communicator, int rank,
                             std::int64_t slots, std::int64_t capacity)
    : model_(part), mesh_(mesh), communicator_(communicator), rank_(rank), leads_(mesh.ep_index(rank) == 0) {
  std::vector<plan::GroupKind> forwards;
  for (int stage = 0; stage + 1 < mesh.pp; ++stage) forwards.push_back(plan::message_group(stage, stage + 1, false));
  communicator.connect(forwards);
  if (leads_) cache_ = nn::make_cache(part.spec(), part.hosted().layers, part.options(), slots, capacity);
}

Decoder LayoutDecoder::decoder() {
  return {.next =
              [this](const std::vector<nn::SlotTokens>& sequences) {
                // Number of slots to clear, these, then each sequence's slot, number of tokens, and tokens.
                std::vector<std::int64_t> order{static_cast<std::int64_t>(to_clear_.size())};
                order.insert(order.end(), to_clear_.begin(), to_clear_.end());
                to_clear_.clear();
                for (const nn::SlotTokens& s : sequences) {
                  order.insert(order.end(), {s.slot, static_cast<std::int64_t>(s.tokens.size())});
                  order.insert(order.end(), s.tokens.begin(), s.tokens.end());
                }
                told(std::move(order));
                return next(sequences);
              },
          .clear =
              [this](std::int64_t slot) {
                cache_->clear(slot);
                to_clear_.push_back(slot);
              }};
}

// From rank 0 to all.
std::vector<std::int64_t> LayoutDecoder::told(std::vector<std::int64_t> order) {
  comm::Group& world = communicator_.group(plan::world_group);
  at::Tensor size = at::tensor({static_cast<std::int64_t>(order.size())}, at::kLong).to(world.device);
  comm::broadcast(world, size, 0, "length of an order");
  order.resize(static_cast<std::size_t>(size.item<std::int64_t>()));
  at::Tensor values = at::tensor(order, at::kLong).to(world.device);
  comm::broadcast(world, values, 0, "order");
  values = values.to(at::kCPU);
  return {values.const_data_ptr<std::int64_t>(), values.const_data_ptr<std::int64_t>() + values.numel()};
}

void LayoutDecoder::finish() {
  told({});
}

void LayoutDecoder::serve() {
  for (;;) {
    const std::vector<std::int64_t> order = told({});
    if (order.empty()) return;
    auto at = order.begin() + 1;
    for (std::int64_t i = 0; i < order[0]; ++i, ++at)
      if (cache_) cache_->clear(*at);
    std::vector<nn::SlotTokens> sequences;
    while (at != order.end()) {
      const std::int64_t slot = *at++, count = *at++;
      sequences.push_back({.slot = slot, .tokens = {at, at + count}});
      at += count;
    }
    next(sequences);
  }
}

at::Tensor LayoutDecoder::next(const std::vector<nn::SlotTokens>& sequences) {
  at::NoGradGuard no_grad;
  std::int64_t rows = 0;
  for (const nn::SlotTokens& s : sequences) rows += static_cast<std::int64_t>(s.tokens.size());
  const auto options = at::TensorOptions().device(model_.options().device).dtype(at::kFloat);
  at::Tensor logits_RV;
  if (leads_) {
    const nn::NewTokens tokens = nn::follow(*cache_, sequences);
    const at::Tensor x_TD = stage(tokens, rows);
    nn::advance(*cache_, tokens);
    if (model_.hosted().layers.head)
      logits_RV = model_.project(nn::last_rows(tokens, x_TD)).to(at::kFloat).contiguous();
  } else {
    const model::LayerRange& layers = model_.hosted().layers;
    for (int l = layers.first_layer; l < layers.first_layer + layers.num_layers; ++l)
      if (model_.spec().is_moe(l)) help(l, rows);
  }
  if (!logits_RV.defined())
    logits_RV = nn::fresh({static_cast<std::int64_t>(sequences.size()), model_.spec().vocab_size}, options);
  comm::broadcast(communicator_.group(plan::world_group), logits_RV, mesh_.rank(mesh_.pp - 1, 0), "logits");
  return logits_RV;
}

// The layers of this stage, from the stage before to the stage behind.
at::Tensor LayoutDecoder::stage(const nn::NewTokens& tokens, std::int64_t rows) {
  const model::LayerRange& layers = model_.hosted().layers;
  const int at = mesh_.pp_index(rank_);
  nn::Boundary b;
  if (layers.embed) {
    b = model_.extend(Segment::embed, -1, {}, tokens, *cache_);
  } else {
    b.x_TD = nn::fresh({rows, model_.spec().hidden},
                       at::TensorOptions().device(model_.options().device).dtype(model_.options().dtype));
    comm::receive(communicator_.group(plan::message_group(at - 1, at, false)), b.x_TD, 0, 0,
                  "hidden states of new tokens");
  }
  for (int l = layers.first_layer; l < layers.first_layer + layers.num_layers; ++l) b = layer(l, std::move(b), tokens);
  if (!layers.head)
    comm::send(communicator_.group(plan::message_group(at, at + 1, false)), b.x_TD.contiguous(), 1, 0,
               "hidden states of new tokens");
  return b.x_TD;
}

nn::Boundary LayoutDecoder::layer(int layer, nn::Boundary b, const nn::NewTokens& tokens) {
  for (const Segment segment : model::computing_segments(model_.spec(), layer)) {
    if (segment != Segment::experts) {
      b = model_.extend(segment, layer, b, tokens, *cache_);
      continue;
    }
    comm::Group& group = communicator_.group(Axis::ep);
    at::Tensor counts_E = at::tensor(b.routing->counts_E, at::kLong).to(b.rows_RD.device());
    b.rows_RD = b.rows_RD.contiguous(), b.scores_R = b.scores_R.contiguous();
    comm::broadcast(group, counts_E, 0, "rows of each expert");
    comm::broadcast(group, b.rows_RD, 0, "rows of the experts");
    comm::broadcast(group, b.scores_R, 0, "scores of the rows");
    b.rows_RD = run_experts(layer, b.routing->counts_E, b.rows_RD, b.scores_R);
  }
  return b;
}

// The other ranks of a stage: a layer's experts.
void LayoutDecoder::help(int layer, std::int64_t rows) {
  const model::ModelSpec& spec = model_.spec();
  comm::Group& group = communicator_.group(Axis::ep);
  const nn::ModelOptions& options = model_.options();
  const auto like = at::TensorOptions().device(options.device).dtype(options.dtype);
  const std::int64_t routed = rows * spec.moe.router.top_k;
  at::Tensor counts_E = nn::fresh({spec.moe.num_experts}, like.dtype(at::kLong));
  at::Tensor rows_RD = nn::fresh({routed, spec.hidden}, like);
  at::Tensor scores_R = nn::fresh({routed}, like.dtype(nn::accumulate_type(options.dtype)));
  comm::broadcast(group, counts_E, 0, "rows of each expert");
  comm::broadcast(group, rows_RD, 0, "rows of the experts");
  comm::broadcast(group, scores_R, 0, "scores of the rows");
  const at::Tensor counts = counts_E.to(at::kCPU);
  const auto* first = counts.const_data_ptr<std::int64_t>();
  run_experts(layer, {first, first + counts.numel()}, rows_RD, scores_R);
}

// Rows are sorted by expert, so a rank's are together.
at::Tensor LayoutDecoder::run_experts(int layer, const std::vector<std::int64_t>& counts_E, const at::Tensor& rows_RD,
                                      const at::Tensor& scores_R) {
  const std::vector<int>& hosted = model_.hosted().experts;
  const auto begin = counts_E.begin() + hosted.front(), end = begin + static_cast<std::ptrdiff_t>(hosted.size());
  const std::int64_t first = std::accumulate(counts_E.begin(), begin, std::int64_t{0});
  nn::Boundary own{.rows_RD = rows_RD, .scores_R = scores_R, .received_counts_PE = {begin, end}};
  const std::int64_t count = std::accumulate(begin, end, std::int64_t{0});
  own.rows_RD = rows_RD.narrow(0, first, count), own.scores_R = scores_R.narrow(0, first, count);
  const at::Tensor results = model_.forward(Segment::experts, layer, own, {}).rows_RD;
  at::Tensor all_RD = at::zeros_like(rows_RD);
  all_RD.narrow(0, first, count).copy_(results);
  comm::all_reduce(communicator_.group(Axis::ep), all_RD, comm::ReduceOp::sum, "results of the experts");
  return all_RD;
}

}  // namespace trireme::train
