// What nn's fused segments allocate, in the order of nn/fused_*.cpp: an oracle of segment_memory, which reads the same
// off the description. nn's own allocator holds both (tests/nn/memory_test.cpp). Scalars and lists of a few bytes are
// left out.
#pragma once
#include <algorithm>

#include "base/errors.h"
#include "model/operators.h"

// Legend: T tokens, D hidden, H query heads, G key/value heads, h head_dim, E experts, K top-k, R rows, F ffn.
namespace trireme::model::by_allocation {

// Bytes alive while a pass runs, beyond what was there before it.
struct Ledger {
  double alive = 0, peak = 0;
  double take(double bytes) {
    alive += bytes;
    peak = std::max(peak, alive);
    return bytes;
  }
  void give(double bytes) { alive -= bytes; }
  // What the pass needs for a moment beyond what it leaves.
  Bytes workspace(double left) const { return Bytes(std::max(0.0, peak - left)); }
};

// Row tiles of nn/cpu/tasks.h.
struct Tiles {
  double size, count;
  explicit Tiles(std::int64_t rows) {
    const std::int64_t rows_of_a_tile = std::clamp<std::int64_t>((rows / 8 + 15) / 16 * 16, 32, 256);
    size = static_cast<double>(rows_of_a_tile);
    count = static_cast<double>((rows + rows_of_a_tile - 1) / rows_of_a_tile);
  }
};

inline constexpr double index_bytes = 8;   // int64
inline constexpr double query_block = 64;  // nn/cpu/attention.cpp

struct Sizes {
  const ModelSpec& spec;
  const SegmentShape& shape;
  bool moe, shared;
  double element, threads, tokens, rows, stream;  // stream: bytes of the hidden states

  Sizes(const ModelSpec& s, int layer, const SegmentShape& sh)
      : spec(s),
        shape(sh),
        moe(layer >= 0 && s.is_moe(layer)),
        shared(moe && s.moe.shared_ffn > 0),
        element(size_of(sh.dtype)),
        threads(sh.threads),
        tokens(static_cast<double>(sh.tokens())),
        rows(static_cast<double>(sh.rows_sent)),
        stream(tokens * s.hidden * element) {}
  double of(double width) const { return tokens * width * element; }
  double of_rows(double count, double width) const { return count * width * element; }
  Tiles tiles() const { return Tiles(shape.tokens()); }
};

inline SegmentMemory attention(const Sizes& z) {
  const AttentionSpec& a = z.spec.attention;
  const double heads = a.num_heads, kv = a.num_kv_heads, h = a.head_dim, inner = heads * h,
               width = (heads + 2 * kv) * h;
  const double experts = z.spec.moe.num_experts, hidden = z.spec.hidden;
  const Tiles tiles = z.tiles();
  const double tile_scratch = z.threads * tiles.size * hidden * z.element;
  const double norm_partials = tiles.count * hidden * z.element;
  const double block = z.threads * query_block * static_cast<double>(z.shape.sequence_length) * z.element;
  SegmentMemory m;

  Ledger forward;
  double saved = z.stream;  // x
  saved += forward.take(z.of(1) + z.of(width) + (a.qk_norm ? z.of((heads + kv) * (h + 1)) : 0));
  forward.take(tile_scratch);
  forward.give(tile_scratch);
  saved += forward.take(z.of(inner) + z.of(heads));
  forward.take(block);
  forward.give(block);
  double boundary = 0, transient = 0, left = 0;
  if (z.moe) {
    const double normed = forward.take(z.stream);  // second norm
    if (z.shared)
      m.to_shared = Bytes(normed);
    else
      transient += normed;
    transient += forward.take(z.of_rows(z.rows, 1));  // weights by token
    boundary += forward.take(z.stream);               // residual
    saved += z.stream;                                // the same
    saved += forward.take(z.of(1) + z.of(experts) + z.rows * index_bytes);
    saved += forward.take(2 * z.rows * index_bytes);  // routing
    boundary += forward.take(z.of_rows(z.rows, hidden + 1));
    left = forward.alive - transient;
  } else {
    boundary += forward.take(z.stream);
    left = forward.alive;
  }
  m.boundary = Bytes(boundary);
  m.saved = Bytes(saved);
  m.forward_workspace = forward.workspace(left);

  m.input_gradient = Bytes(z.stream);
  const double norms = (1 + z.moe) * hidden * z.element + (a.qk_norm ? 2 * h * z.element : 0);
  // x, qkv and attended with the gradients of qkv and of what is behind; x behind and the logits' gradient.
  m.weight_work = Bytes(norms + z.stream + z.of(width) + z.of(inner) + z.stream + (z.moe ? z.stream + z.of(experts) : 0));
  for (const bool joint : {true, false}) {
    Ledger backward;
    double dx = z.moe ? backward.take(z.stream) : 0;  // behind attention; a dense layer's is the output's own
    const double from_output = backward.take(z.of(inner)), logits = z.moe ? backward.take(z.of(experts)) : 0;
    const double routing = z.moe ? backward.take(tile_scratch + norm_partials + (joint ? z.stream : 0)) : 0;
    backward.give(routing);
    if (joint) backward.give(logits);
    // Its forward's logits, scales and order of rows; what a weight's gradient needs stays where that comes later.
    if (z.moe) backward.give(z.of(experts) + z.of(1) + 3 * z.rows * index_bytes + (joint ? z.stream : 0));
    backward.take(z.of(width));
    backward.take(2 * block);
    backward.give(2 * block + from_output + z.of(heads) + (joint ? z.of(inner) : 0));
    backward.give(a.qk_norm ? z.of((heads + kv) * h) : z.of(width));  // queries and keys in their places
    if (dx == 0 || !joint) backward.take(z.stream);
    backward.take((joint ? z.stream : 0) + tile_scratch + norm_partials + 2 * tiles.count * h * z.element);
    if (joint)
      m.backward_workspace = backward.workspace(z.stream);
    else
      m.input_workspace = Bytes(backward.workspace(z.stream).value - m.weight_work.value);
  }
  m.weight_workspace = Bytes(z.stream);  // a norm again
  return m;
}

// Scratch of a gated feed-forward's forward, and what its backward holds beside the gradients that it gives.
inline double gated_scratch(const Sizes& z, double rows, double ffn) {
  return z.threads * Tiles(static_cast<std::int64_t>(rows)).size * ffn * z.element;
}

inline SegmentMemory experts(const Sizes& z) {
  const double hidden = z.spec.hidden, ffn = z.spec.moe.expert_ffn;
  const double rows = static_cast<double>(z.shape.rows_received);
  SegmentMemory m;
  double saved = z.of_rows(rows, hidden + 1), boundary = z.stream;  // rows and scores; the residual stream passes
  Ledger forward, backward;
  boundary += forward.take(z.of_rows(rows, hidden));
  saved += forward.take(z.of_rows(rows, 2 * ffn));
  forward.take(gated_scratch(z, rows, ffn));
  forward.give(gated_scratch(z, rows, ffn));
  const double input = backward.take(z.of_rows(rows, hidden + 1));
  backward.take(z.of_rows(rows, ffn));
  m.boundary = Bytes(boundary);
  m.saved = Bytes(saved);
  m.forward_workspace = forward.workspace(forward.alive);
  m.backward_workspace = backward.workspace(input);
  m.input_gradient = Bytes(z.stream + input);
  // Rows in and what went into the second matmul, with the gradients behind both.
  m.weight_work = Bytes(z.of_rows(rows, hidden + 3 * ffn + hidden));
  m.input_workspace = Bytes(m.backward_workspace.value - m.weight_work.value);
  return m;
}

inline SegmentMemory shared(const Sizes& z) {
  const double ffn = z.spec.moe.shared_ffn;
  // Its input is its own from here on; its output's gradient is the residual's.
  const double work = 2 * z.stream + z.of(3 * ffn);
  return {.boundary = Bytes(z.stream),
          .saved = Bytes(z.stream + z.of(2 * ffn)),
          .forward_workspace = Bytes(gated_scratch(z, z.tokens, ffn)),
          .backward_workspace = Bytes(z.of(ffn)),
          .input_gradient = Bytes(z.stream),
          .weight_work = Bytes(work),
          .input_workspace = Bytes(z.of(ffn) - work)};
}

inline SegmentMemory combine(const Sizes& z) {
  // The routing is the attention segment's; the residual's and the shared expert's gradients are the output's own.
  return {.boundary = Bytes(z.stream), .input_gradient = Bytes(z.stream + z.of_rows(z.rows, z.spec.hidden))};
}

inline SegmentMemory mlp(const Sizes& z) {
  const double ffn = z.spec.dense_ffn;
  SegmentMemory m;
  Ledger forward, backward;
  const double kept = forward.take(z.of(1));
  forward.take(z.stream);  // the norm
  const double out = forward.take(z.stream), pre = forward.take(z.of(2 * ffn));
  forward.take(gated_scratch(z, z.tokens, ffn));
  m.boundary = Bytes(out);
  m.saved = Bytes(z.stream + kept + pre);
  m.forward_workspace = forward.workspace(kept + out + pre);
  backward.take(z.of(ffn));  // the activation
  backward.take(2 * z.stream + z.tiles().count * z.spec.hidden * z.element);  // the gradients on both sides of the norm
  m.weight_work = Bytes(2 * z.stream + z.of(3 * ffn) + z.spec.hidden * z.element);
  m.input_workspace = Bytes(backward.workspace(z.stream).value - m.weight_work.value);
  backward.give(z.stream + z.tiles().count * z.spec.hidden * z.element);
  backward.take(z.stream);  // the norm again
  m.backward_workspace = backward.workspace(z.stream);
  m.weight_workspace = Bytes(z.stream);
  m.input_gradient = Bytes(z.stream);
  return m;
}

inline SegmentMemory head(const Sizes& z) {
  const double chunk = std::min<double>(static_cast<double>(head_chunk_tokens), z.tokens), hidden = z.spec.hidden;
  const double logits = chunk * static_cast<double>(z.spec.vocab_size) * z.element;
  const double normed = chunk * (hidden + 1) * z.element;
  SegmentMemory m;
  m.forward_workspace = Bytes(logits + normed);
  if (!z.shape.training) return m;
  const double partials = Tiles(static_cast<std::int64_t>(chunk)).count * hidden * z.element;
  m.saved = Bytes(z.stream);  // the input's gradient
  m.forward_workspace += Bytes(chunk * hidden * z.element + partials);
  m.input_gradient = Bytes(z.stream);
  return m;
}

inline SegmentMemory segment_memory(const ModelSpec& spec, Segment segment, int layer, const SegmentShape& shape) {
  const Sizes z(spec, layer, shape);
  switch (segment) {
    case Segment::embed:
      return {.boundary = Bytes(z.stream), .weight_work = Bytes(z.stream)};
    case Segment::attention:
      return attention(z);
    case Segment::shared:
      return shared(z);
    case Segment::experts:
      return experts(z);
    case Segment::combine:
      return combine(z);
    case Segment::mlp:
      return mlp(z);
    case Segment::head:
      return head(z);
    case Segment::dispatch:
      return {};
    case Segment::none:
      break;
  }
  TRIREME_CHECK(false, "no segment");
  return {};
}

}  // namespace trireme::model::by_allocation
