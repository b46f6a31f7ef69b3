#include "plan/pieces.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "plan/pipeline/generators.h"

namespace trireme::plan {

namespace {

// Of a whole cut into equal parts, the earlier ones with one more.
int even_part(std::int64_t whole, int parts, int part) {
  return static_cast<int>(whole / parts + (part < whole % parts ? 1 : 0));
}

}  // namespace

int num_pieces(const LayoutSpec& l) {
  return l.pp * chunks_a_stage(l.schedule, l.virtual_stages);
}

int piece_of(const LayoutSpec& l, int stage, int chunk) {
  return chunk == 1 && is_v_shape(l.schedule) ? 2 * l.pp - 1 - stage : chunk * l.pp + stage;
}

int num_layers_of_piece(const LayoutSpec& l, int num_layers, int piece) {
  const int pieces = num_pieces(l);
  if (l.stage_layers.empty()) return even_part(num_layers, pieces, piece);
  if (static_cast<int>(l.stage_layers.size()) == pieces) return static_cast<int>(l.stage_layers[piece]);
  const int chunk = piece / l.pp, round = piece % l.pp;
  const int stage = chunk == 1 && is_v_shape(l.schedule) ? l.pp - 1 - round : round;
  return even_part(l.stage_layers[stage], pieces / l.pp, chunk);
}

model::LayerRange layers_of_piece(const LayoutSpec& l, int num_layers, int piece) {
  const bool head = piece == num_pieces(l) - 1;
  model::LayerRange out{.embed = piece == 0, .head = head, .mtp = head};
  for (int p = 0; p < piece; ++p) out.first_layer += num_layers_of_piece(l, num_layers, p);
  out.num_layers = num_layers_of_piece(l, num_layers, piece);
  return out;
}

std::vector<model::LayerRange> layers_of_pieces(const LayoutSpec& l, int num_layers) {
  check_stage_layers(l, num_layers);
  std::vector<model::LayerRange> out;
  for (int p = 0; p < num_pieces(l); ++p) out.push_back(layers_of_piece(l, num_layers, p));
  return out;
}

bool stage_layers_fit(const LayoutSpec& l, int num_layers) {
  const auto& told = l.stage_layers;
  if (told.empty()) return true;
  const int entries = static_cast<int>(told.size());
  return (entries == l.pp || entries == num_pieces(l)) && std::ranges::all_of(told, [](auto n) { return n >= 0; }) &&
         std::accumulate(told.begin(), told.end(), std::int64_t{0}) == num_layers;
}

std::string stage_layers_wanted(const LayoutSpec& l, int num_layers) {
  const int entries = static_cast<int>(l.stage_layers.size()), chunks = num_pieces(l) / l.pp;
  if (entries == l.pp || entries == l.pp * chunks)
    return fmt::format("must sum to model.num_layers ({})", num_layers);
  if (chunks == 1) return fmt::format("must have layout.pp ({}) entries", l.pp);
  return fmt::format("must have layout.pp ({}) entries, or layout.pp * layout.virtual_stages ({} * {}) entries", l.pp,
                     l.pp, chunks);
}

void check_stage_layers(const LayoutSpec& l, int num_layers) {
  if (!stage_layers_fit(l, num_layers))
    throw ConfigError({.key = "layout.stage_layers",
                       .value = fmt::format("{}", l.stage_layers),
                       .allowed = stage_layers_wanted(l, num_layers)});
}

}  // namespace trireme::plan
