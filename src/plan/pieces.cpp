#include "plan/pieces.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "plan/layout_schedule.h"
#include "plan/pipeline/generators.h"

namespace trireme::plan {

namespace {

// Of a whole cut into equal parts, the earlier ones with one more.
int even_part(std::int64_t whole, int parts, int part) {
  return static_cast<int>(whole / parts + (part < whole % parts ? 1 : 0));
}

}  // namespace

int num_pieces(const LayoutSpec& l) {
  return l.schedule_file.grid ? num_pieces(*l.schedule_file.grid) : l.pp * num_chunks(l);
}

int piece_of(const LayoutSpec& l, int stage, int chunk) {
  return l.schedule_file.grid ? piece_of(*l.schedule_file.grid, stage, chunk)
                              : piece_of(piece_map(l.schedule), l.pp, stage, chunk);
}

PieceSizes::PieceSizes(const LayoutSpec& layout, int num_layers)
    : layout_(layout),
      num_layers_(num_layers),
      pieces_(plan::num_pieces(layout)),
      v_shape_(!layout.stage_layers.empty() && piece_map(layout.schedule) == PieceMap::v) {}

int PieceSizes::operator[](int piece) const {
  const auto& told = layout_.stage_layers;
  if (told.empty()) return even_part(num_layers_, pieces_, piece);
  if (static_cast<int>(told.size()) == pieces_) return static_cast<int>(told[piece]);
  const int chunk = piece / layout_.pp, round = piece % layout_.pp;
  const int stage = v_shape_ && chunk == 1 ? layout_.pp - 1 - round : round;
  return even_part(told[stage], pieces_ / layout_.pp, chunk);
}

int PieceSizes::largest() const {
  if (layout_.stage_layers.empty()) return (*this)[0];
  int out = 0;
  for (int p = 0; p < pieces_; ++p) out = std::max(out, (*this)[p]);
  return out;
}

model::LayerRange layers_of_piece(const LayoutSpec& l, int num_layers, int piece) {
  const PieceSizes sizes(l, num_layers);
  const bool head = piece == sizes.num_pieces() - 1;
  model::LayerRange out{.num_layers = sizes[piece], .embed = piece == 0, .head = head, .mtp = head};
  if (l.stage_layers.empty())
    out.first_layer = piece * (num_layers / sizes.num_pieces()) + std::min(piece, num_layers % sizes.num_pieces());
  else
    for (int p = 0; p < piece; ++p) out.first_layer += sizes[p];
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
  return ((entries == l.pp && !l.schedule_file.grid) || entries == num_pieces(l)) &&
         std::ranges::all_of(told, [](auto n) { return n >= 0; }) &&
         std::accumulate(told.begin(), told.end(), std::int64_t{0}) == num_layers;
}

std::string stage_layers_wanted(const LayoutSpec& l, int num_layers) {
  const int entries = static_cast<int>(l.stage_layers.size()), chunks = num_chunks(l);
  if (l.schedule_file.grid && entries != num_pieces(l))
    return fmt::format("must have an entry for each of the {} pieces of the model in layout.schedule_file",
                       num_pieces(l));
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
