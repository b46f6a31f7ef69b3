#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "comm/shared_link_probe.h"

namespace trireme::comm {
namespace {

using Samples = std::vector<SharedSample*>;

double model(const SharedSample& s, double latency_s, double message_s, double seconds_per_byte) {
  return latency_s + std::max(s.messages * message_s, s.busiest_bytes * seconds_per_byte);
}

// Latency and message time from the smallest messages: least squares of the relative error, neither below 0.
std::pair<double, double> fit_messages(const Samples& samples) {
  double n = 0, x = 0, xx = 0, y = 0, xy = 0;  // weighted by 1 / t^2
  for (const SharedSample* s : samples) {
    const double w = 1 / (s->median_s * s->median_s);
    n += w;
    x += w * s->messages;
    xx += w * s->messages * s->messages;
    y += w * s->median_s;
    xy += w * s->messages * s->median_s;
  }
  const double determinant = n * xx - x * x;
  // One number of messages only: all of it is latency.
  if (determinant < 1e-9 * n * xx) return {y / n, 0};
  const double message_s = (n * xy - x * y) / determinant, latency_s = (y - message_s * x) / n;
  if (latency_s < 0) return {0, xy / xx};
  if (message_s < 0) return {y / n, 0};
  return {latency_s, message_s};
}

double error(const Samples& samples, double latency_s, double message_s, double seconds_per_byte) {
  double sum = 0;
  for (const SharedSample* s : samples)
    sum += std::abs(model(*s, latency_s, message_s, seconds_per_byte) / s->median_s - 1);
  return sum;
}

// Seconds a byte: the best of a fine logarithmic grid, from what would explain the largest sample alone down.
double fit_bytes(const Samples& samples, double latency_s, double message_s) {
  double largest = 0;
  for (const SharedSample* s : samples) largest = std::max(largest, 2 * s->median_s / s->busiest_bytes);
  double best = 0, least = error(samples, latency_s, message_s, 0);
  for (double rate = largest; rate > 1e-15; rate /= 1.01)
    if (const double e = error(samples, latency_s, message_s, rate); e < least) {
      least = e;
      best = rate;
    }
  return best;
}

}  // namespace

platform::SharedLink fit_shared_link(std::vector<SharedSample*>& samples) {
  TRIREME_CHECK(!samples.empty());
  double smallest = samples.front()->bytes;
  for (const SharedSample* s : samples) smallest = std::min(smallest, s->bytes);
  Samples small;
  for (SharedSample* s : samples)
    if (s->bytes == smallest) small.push_back(s);
  const auto [latency_s, message_s] = fit_messages(small);
  // Patterns talk to all partners at once, and many flows into one card share it less well than few.
  int most = 0;
  for (const SharedSample* s : samples) most = std::max(most, s->messages);
  Samples crowded;
  for (SharedSample* s : samples)
    if (2 * s->messages >= most) crowded.push_back(s);
  const double rate = fit_bytes(crowded, latency_s, message_s);
  std::vector<double> residuals;
  for (SharedSample* s : samples) {
    s->fitted_s = model(*s, latency_s, message_s, rate);
    residuals.push_back(std::abs(s->fitted_s / s->median_s - 1));
  }
  std::sort(residuals.begin(), residuals.end());
  return {.level = samples.front()->level,
          .source = platform::Source::measured,
          .latency_s = latency_s,
          .message_s = message_s,
          .bytes_per_s = rate > 0 ? 1 / rate : 1e15,
          .residual = residuals[residuals.size() / 2]};
}

}  // namespace trireme::comm
