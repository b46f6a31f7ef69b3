#include "nn/parameter.h"

#include "base/errors.h"

namespace trireme::nn {
namespace {

at::Tensor view_of(const at::Tensor& whole, const Piece& piece) {
  return whole.detach().view({-1}).narrow(0, piece.offset, piece.spec.count()).view(piece.spec.shape);
}

}  // namespace

at::Tensor Parameter::piece_value(const Piece& piece) const {
  return view_of(value, piece);
}

at::Tensor Parameter::piece_grad(const Piece& piece) const {
  TRIREME_CHECK(grad.defined(), "parameter {} has no gradient buffer", name);
  return view_of(grad, piece);
}

}  // namespace trireme::nn
