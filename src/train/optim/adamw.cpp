#include "train/optim/adamw.h"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "base/errors.h"
#include "train/optim/adamw_kernel.h"

namespace trireme::train {

at::ScalarType master_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

namespace {

// Four arrays of 64 KiB: a block stays in the second-level cache between the update and the rounding to the value.
constexpr std::int64_t block_elements = 16384;

bool fused_here(const at::Tensor& value) {
  return value.device().is_cpu();
}

// Rounds a block of masters to a value of lower precision.
template <class Real>
void round_to(const at::Tensor& value, std::int64_t begin, std::int64_t count, const Real* master) {
  if (value.scalar_type() == at::kBFloat16) {
    auto* out = value.data_ptr<at::BFloat16>() + begin;
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(master[i]);
  } else {
    auto* out = value.data_ptr<at::Half>() + begin;
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(master[i]);
  }
}

// The step's numbers for one parameter. The composite hands them to ATen as doubles, which rounds them alike.
AdamWStep<double> numbers(const AdamWOptions& options, std::int64_t t, double learning_rate, double decay,
                          double grad_scale) {
  const double correction1 = 1 - std::pow(options.beta1, static_cast<double>(t));
  const double correction2 = 1 - std::pow(options.beta2, static_cast<double>(t));
  return {.grad_scale = grad_scale,
          .keep = 1 - learning_rate * decay,
          .one_minus_beta1 = 1 - options.beta1,
          .beta2 = options.beta2,
          .one_minus_beta2 = 1 - options.beta2,
          .inverse_sqrt_correction2 = 1 / std::sqrt(correction2),
          .eps = options.eps,
          .step_size = learning_rate / correction1};
}

template <class Real>
AdamWStep<Real> rounded(const AdamWStep<double>& s) {
  return {static_cast<Real>(s.grad_scale),
          static_cast<Real>(s.keep),
          static_cast<Real>(s.one_minus_beta1),
          static_cast<Real>(s.beta2),
          static_cast<Real>(s.one_minus_beta2),
          static_cast<Real>(s.inverse_sqrt_correction2),
          static_cast<Real>(s.eps),
          static_cast<Real>(s.step_size)};
}

struct Run {
  std::int64_t first = 0, count = 0;
};

// The elements of a parameter that are trained: pieces lie one behind the other.
std::vector<Run> trained_runs(const nn::Parameter& parameter, const plan::FrozenParameters& frozen) {
  if (frozen.empty() || parameter.pieces.empty()) return {{0, parameter.value.numel()}};
  std::vector<Run> out;
  for (const nn::Piece& piece : parameter.pieces) {
    if (frozen.has(piece.spec.name)) continue;
    if (!out.empty() && out.back().first + out.back().count == piece.offset)
      out.back().count += piece.spec.count();
    else
      out.push_back({piece.offset, piece.spec.count()});
  }
  return out;
}

}  // namespace

at::Tensor AdamW::State::value() const {
  return parameter->value.detach().view({-1}).narrow(0, begin, count);
}
at::Tensor AdamW::State::grad() const {
  return parameter->grad.view({-1}).narrow(0, begin, count);
}

AdamW::AdamW(std::vector<nn::Parameter*> parameters, const AdamWOptions& options) : options_(options) {
  at::NoGradGuard no_grad;
  for (nn::Parameter* parameter : parameters) {
    const at::Tensor& value = parameter->value;
    TRIREME_CHECK(value.defined() && value.is_contiguous(), "{}: the value must be contiguous", parameter->name);
    const at::ScalarType dtype = master_dtype(value.scalar_type());
    for (const auto& [first, count] : trained_runs(*parameter, options_.frozen)) {
      State state{.parameter = parameter, .begin = first, .count = count};
      if (value.scalar_type() != dtype) state.master = state.value().to(dtype);
      state.m = at::zeros({count}, value.options().dtype(dtype).requires_grad(false));
      state.v = at::zeros_like(state.m);
      if (fused_here(value) && !options_.reference) {
        for (std::int64_t begin = 0; begin < count; begin += block_elements) {
          blocks_.push_back({states_.size(), begin, std::min(block_elements, count - begin)});
        }
      }
      states_.push_back(std::move(state));
    }
  }
}

template <class Real>
void AdamW::fused(const State& state, const Block& block, double learning_rate, double grad_scale) const {
  const at::Tensor& value = state.parameter->value;
  const auto step = rounded<Real>(numbers(options_, num_steps_, learning_rate, decay(state), grad_scale));
  const std::int64_t begin = state.begin + block.begin;  // in the parameter
  Real* master = state.master.defined() ? state.master.data_ptr<Real>() + block.begin : value.data_ptr<Real>() + begin;
  adamw_update<Real>(master, state.m.data_ptr<Real>() + block.begin, state.v.data_ptr<Real>() + block.begin,
                     state.parameter->grad.const_data_ptr<Real>() + begin, block.count, step);
  if (state.master.defined()) round_to(value, begin, block.count, master);
}

void AdamW::composite(const State& state, double learning_rate, double grad_scale) const {
  const auto s = numbers(options_, num_steps_, learning_rate, decay(state), grad_scale);
  at::Tensor value = state.value();
  at::Tensor master = state.master.defined() ? state.master : value;
  at::Tensor m = state.m, v = state.v;
  const at::Tensor g = state.grad() * s.grad_scale;
  m.add_((g - m).mul_(s.one_minus_beta1));
  v.mul_(s.beta2).add_((g * g).mul_(s.one_minus_beta2));
  const at::Tensor denominator = v.sqrt().mul_(s.inverse_sqrt_correction2).add_(s.eps);
  master.mul_(s.keep).sub_((m / denominator).mul_(s.step_size));
  if (state.master.defined()) value.copy_(master);
}

void AdamW::step(double learning_rate, double grad_scale) {
  at::NoGradGuard no_grad;
  for (const State& state : states_) {
    const nn::Parameter& p = *state.parameter;
    TRIREME_CHECK(p.grad.defined() && p.grad.is_contiguous() && p.grad.scalar_type() == state.m.scalar_type() &&
                      p.grad.sizes() == p.value.sizes(),
                  "{}: the gradient must be bound: contiguous, of the value's shape and of the moments' dtype", p.name);
  }
  ++num_steps_;
  at::parallel_for(0, static_cast<std::int64_t>(blocks_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Block& block = blocks_[static_cast<std::size_t>(i)];
      const State& state = states_[block.state];
      if (state.m.scalar_type() == at::kDouble) {
        fused<double>(state, block, learning_rate, grad_scale);
      } else {
        fused<float>(state, block, learning_rate, grad_scale);
      }
    }
  });
  for (const State& state : states_) {
    if (options_.reference || !fused_here(state.parameter->value)) composite(state, learning_rate, grad_scale);
  }
}

std::int64_t AdamW::bytes() const {
  std::int64_t total = 0;
  for (const State& state : states_) {
    total += static_cast<std::int64_t>(state.m.nbytes() + state.v.nbytes());
    if (state.master.defined()) total += static_cast<std::int64_t>(state.master.nbytes());
  }
  return total;
}

AdamW::PieceState AdamW::piece_state(const nn::Parameter& parameter, const nn::Piece& piece) const {
  for (const State& state : states_) {
    const std::int64_t begin = piece.offset - state.begin;
    if (state.parameter != &parameter || begin < 0 || begin >= state.count) continue;
    const auto view = [&](const at::Tensor& whole) {
      return whole.defined() ? whole.narrow(0, begin, piece.spec.count()).view(piece.spec.shape) : at::Tensor();
    };
    return {view(state.master), view(state.m), view(state.v)};
  }
  TRIREME_CHECK(options_.frozen.has(piece.spec.name), "{} is not a parameter of this optimizer", parameter.name);
  return {};
}

void AdamW::adopt_values() {
  at::NoGradGuard no_grad;
  for (State& state : states_) {
    if (state.master.defined()) state.master.copy_(state.value());
  }
}

void AdamW::start_piece(const nn::Parameter& parameter, const nn::Piece& piece) {
  at::NoGradGuard no_grad;
  const PieceState state = piece_state(parameter, piece);
  if (!state.exp_avg.defined()) return;
  state.exp_avg.zero_();
  state.exp_avg_sq.zero_();
  if (state.master.defined()) state.master.copy_(parameter.piece_value(piece));
}

}  // namespace trireme::train
