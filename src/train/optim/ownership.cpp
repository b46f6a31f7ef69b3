#include "train/optim/ownership.h"

namespace trireme::train {

bool Ownership::owns(const nn::Parameter& parameter, const nn::Piece& piece) const {
  if (parameter.expert) return mesh.edp_index(rank) == 0;
  if (piece.spec.name == "embed.weight" && mesh.pp_index(rank) != 0) return false;
  return mesh.dp_index(rank) == 0;
}

}  // namespace trireme::train
