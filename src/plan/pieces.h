// Which layers of the model each piece of a pipeline has, and which piece a stage's chunk is: one rule for lowering, the
// estimate of time and that of memory.
//
// A piece is a run of consecutive layers between two pipeline boundaries; there are pp x chunks of a stage, in the
// model's order. layout.stage_layers gives the layers of each of them, or of each stage: a stage's layers are then spread
// over its chunks as evenly as possible, the earlier chunks with one more. Where it says nothing, layers are spread over
// the pieces as evenly as possible, the earlier ones with one more. A piece may have none.
#pragma once
#include <string>
#include <vector>

#include "model/layer_range.h"
#include "plan/layout_spec.h"

namespace trireme::plan {

int num_pieces(const LayoutSpec& layout);

// The piece that is chunk `chunk` of stage `stage`: chunks go round the stages, but for V shapes, whose second chunk
// goes back from the last stage to the first, and for a schedule's file, which says it (-1: an empty chunk).
int piece_of(const LayoutSpec& layout, int stage, int chunk);

// How many layers each piece has. The layout's stage_layers must fit (stage_layers_fit), and the layout must outlive
// this. Allocates nothing.
class PieceSizes {
 public:
  PieceSizes(const LayoutSpec& layout, int num_layers);
  int operator[](int piece) const;
  int num_pieces() const { return pieces_; }
  int largest() const;

 private:
  const LayoutSpec& layout_;
  int num_layers_, pieces_;
  bool v_shape_;
};

// Of one piece. Allocates nothing; takes time for each piece before it.
model::LayerRange layers_of_piece(const LayoutSpec& layout, int num_layers, int piece);
// All of them, in the model's order. ConfigError as check_stage_layers.
std::vector<model::LayerRange> layers_of_pieces(const LayoutSpec& layout, int num_layers);

// Whether stage_layers is empty, or has an entry for each stage or each piece and that many layers in all.
bool stage_layers_fit(const LayoutSpec& layout, int num_layers);
// What stage_layers would have to be, where it doesn't fit.
std::string stage_layers_wanted(const LayoutSpec& layout, int num_layers);
// ConfigError (key layout.stage_layers) where it doesn't fit.
void check_stage_layers(const LayoutSpec& layout, int num_layers);

}  // namespace trireme::plan
