#include <algorithm>
#include <array>
#include <cmath>

#include "base/errors.h"
#include "comm/shared_link_probe.h"

namespace trireme::comm {
namespace {

constexpr int num_terms = 3;  // latency, messages, bytes
using Terms = std::array<double, num_terms>;

Terms terms_of(const SharedSample& s) {
  return {1, double(s.messages), s.busiest_bytes};
}

// Least squares over the terms that are switched on: Gauss with pivoting on the normal equations, columns scaled.
Terms solve(const std::vector<SharedSample*>& samples, const std::array<bool, num_terms>& on) {
  std::array<std::array<double, num_terms + 1>, num_terms> a{};
  Terms scale{};
  for (const SharedSample* s : samples)
    for (int i = 0; i < num_terms; ++i) scale[i] = std::max(scale[i], terms_of(*s)[i] / s->median_s);
  for (const SharedSample* s : samples) {
    const Terms x = terms_of(*s);
    for (int i = 0; i < num_terms; ++i) {
      const double xi = on[i] ? x[i] / s->median_s / scale[i] : 0;
      for (int j = 0; j < num_terms; ++j) a[i][j] += on[j] ? xi * x[j] / s->median_s / scale[j] : 0;
      a[i][num_terms] += xi;
    }
  }
  for (int i = 0; i < num_terms; ++i)
    if (!on[i]) a[i][i] = 1;
  for (int i = 0; i < num_terms; ++i) {
    int pivot = i;
    for (int r = i + 1; r < num_terms; ++r)
      if (std::abs(a[r][i]) > std::abs(a[pivot][i])) pivot = r;
    std::swap(a[i], a[pivot]);
    if (std::abs(a[i][i]) < 1e-12) {  // not told apart from the others by these samples
      a[i] = {};
      a[i][i] = 1;
      continue;
    }
    for (int r = 0; r < num_terms; ++r) {
      if (r == i) continue;
      const double factor = a[r][i] / a[i][i];
      for (int c = i; c <= num_terms; ++c) a[r][c] -= factor * a[i][c];
    }
  }
  Terms out{};
  for (int i = 0; i < num_terms; ++i) out[i] = on[i] ? a[i][num_terms] / a[i][i] / scale[i] : 0;
  return out;
}

double error_of(const std::vector<SharedSample*>& samples, const Terms& t) {
  double sum = 0;
  for (const SharedSample* s : samples) {
    const Terms x = terms_of(*s);
    const double e = (t[0] * x[0] + t[1] * x[1] + t[2] * x[2]) / s->median_s - 1;
    sum += e * e;
  }
  return sum;
}

}  // namespace

platform::SharedLink fit_shared_link(std::vector<SharedSample*>& samples) {
  TRIREME_CHECK(!samples.empty());
  const bool many = std::any_of(samples.begin(), samples.end(),
                                [&](const SharedSample* s) { return s->messages != samples.front()->messages; });
  // The best of all subsets of terms whose factors are not negative.
  Terms best{0, 0, 0};
  double least = error_of(samples, best);
  for (int set = 1; set < 1 << num_terms; ++set) {
    const std::array<bool, num_terms> on{(set & 1) != 0, (set & 2) != 0 && many, (set & 4) != 0};
    const Terms t = solve(samples, on);
    if (*std::min_element(t.begin(), t.end()) < 0) continue;
    if (const double e = error_of(samples, t); e < least) {
      least = e;
      best = t;
    }
  }
  std::vector<double> residuals;
  for (SharedSample* s : samples) {
    const Terms x = terms_of(*s);
    s->fitted_s = best[0] * x[0] + best[1] * x[1] + best[2] * x[2];
    residuals.push_back(std::abs(s->fitted_s / s->median_s - 1));
  }
  std::nth_element(residuals.begin(), residuals.begin() + static_cast<std::ptrdiff_t>(residuals.size() / 2),
                   residuals.end());
  return {.level = samples.front()->level,
          .source = platform::Source::measured,
          .latency_s = best[0],
          .message_s = best[1],
          .bytes_per_s = best[2] > 0 ? 1 / best[2] : 1e15,
          .residual = residuals[residuals.size() / 2]};
}

}  // namespace trireme::comm
