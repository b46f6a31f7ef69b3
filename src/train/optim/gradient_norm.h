// The global gradient norm: the sum of squares over the distinct owners of all pieces, so that it does not depend on
// how often a parameter is replicated. Each rank sums the pieces that it owns; the caller adds the ranks' sums (one
// all-reduce of a float64) and takes the root, which gives every rank the same value.
#pragma once
#include <vector>

#include "nn/parameter.h"
#include "plan/frozen_parameters.h"
#include "train/optim/ownership.h"

namespace trireme::train {

// In float64, over Parameter::grad of the owned pieces that are not frozen; 0 where the rank owns nothing. The elements are cut in chunks
// of a fixed size that are added in order, so the bits don't depend on the number of threads. Infinite or NaN gradients
// give an infinite or NaN sum: check std::isfinite of the global one before using it.
double sum_of_squares(const std::vector<nn::Parameter*>& parameters, const Ownership& ownership,
                      const plan::FrozenParameters& frozen = {});

// What to multiply gradients by so that their norm is at most `limit` (0: no limit). 1 where the norm is small enough.
double clip_factor(double norm, double limit);

}  // namespace trireme::train
