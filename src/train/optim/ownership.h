// Which rank owns a piece of a parameter: counts it in the gradient norm and writes it to checkpoints. Every piece of
// the model has exactly one owner in the world:
//   dense pieces                 dp index 0 of the stage that hosts them
//   routed experts               edp index 0 of each ep group: the first of the ranks that host the same experts
//   tied embedding               its copy on the last stage has no owner there: stage 0's counts
#pragma once
#include "nn/parameter.h"
#include "plan/mesh.h"

namespace trireme::train {

struct Ownership {
  plan::Mesh mesh;
  int rank = 0;

  bool owns(const nn::Parameter& parameter, const nn::Piece& piece) const;
  // Whether this rank speaks for its stage in what is neither (the router's selection bias).
  bool owns_dense() const { return mesh.dp_index(rank) == 0; }
};

}  // namespace trireme::train
