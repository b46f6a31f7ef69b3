// PREFIX.weights: how much each token counts in the loss when it is predicted. One little-endian float32 a token in the
// order of PREFIX.bin, and nothing else: 4 bytes times the tokens. All are finite and not negative.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/atomic_file.h"

namespace trireme::train {

inline constexpr std::size_t weight_bytes = 4;

// Beside its name until commit(), as TokenWriter's files.
class WeightWriter {
 public:
  explicit WeightWriter(const std::string& prefix);
  void add(std::span<const float> weights);
  void prepare();
  void commit();
  double sum() const { return sum_; }

 private:
  void flush();

  AtomicFile file_;
  std::vector<float> buffer_;
  double sum_ = 0;
};

}  // namespace trireme::train
