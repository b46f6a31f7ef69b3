#include <algorithm>
#include <cmath>
#include <vector>

#include "base/errors.h"
#include "comm/shared_link_probe.h"

namespace trireme::comm {
namespace {

using Samples = std::vector<SharedSample*>;

// latency + own work and wires together, what is in the bucket beforehand not counted.
struct Model {
  double latency_s = 0, message_s = 0, seconds_per_byte = 0, bucket_bytes = 0, blend = 0;

  double seconds(const SharedSample& s) const {
    const double own = s.messages * message_s, wires = std::max(0.0, s.busiest_bytes - bucket_bytes) * seconds_per_byte;
    const double more = std::max(own, wires), less = std::min(own, wires);
    return latency_s + (blend > 0 && more > 0 ? more * std::pow(1 + std::pow(less / more, blend), 1 / blend) : more);
  }
  double error(const Samples& samples) const {
    double sum = 0;
    for (const SharedSample* s : samples) sum += std::abs(seconds(*s) / s->median_s - 1);
    return sum;
  }
};

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

// Seconds a byte: the best of a fine logarithmic grid, from what would explain the largest sample alone down.
Model fit_bytes(const Samples& samples, Model model) {
  double largest = 0;
  for (const SharedSample* s : samples) largest = std::max(largest, 2 * s->median_s / s->busiest_bytes);
  model.seconds_per_byte = 0;
  Model best = model;
  double least = best.error(samples);
  for (double rate = largest; rate > 1e-15; rate /= 1.01) {
    model.seconds_per_byte = rate;
    if (const double e = model.error(samples); e < least * (1 - 1e-9)) {
      least = e;
      best = model;
    }
  }
  return best;
}

Model best_of(const Samples& samples, const std::vector<Model>& tried) {
  Model best = fit_bytes(samples, tried.front());
  for (const Model& model : tried)
    if (const Model fitted = fit_bytes(samples, model); fitted.error(samples) < best.error(samples) * (1 - 1e-6)) best = fitted;
  return best;
}

double bounded_time(const SharedSample& s, const platform::SharedLink& link, double wake_s) {
  const double steps = s.messages;
  return steps * (link.message_s + wake_s) + steps * (link.latency_s - wake_s) / s.in_flight;
}

}  // namespace

double fit_wake(std::vector<SharedSample*>& bounded, const platform::SharedLink& link) {
  // Linear in wake_s: least squares of the relative error, between nothing and all of the latency.
  double a = 0, b = 0;
  for (const SharedSample* s : bounded) {
    const double slope = s->messages * (1 - 1.0 / s->in_flight) / s->median_s;
    a += slope * slope;
    b += slope * (1 - bounded_time(*s, link, 0) / s->median_s);
  }
  const double wake_s = a > 0 ? std::clamp(b / a, 0.0, link.latency_s) : 0;
  for (SharedSample* s : bounded) s->fitted_s = bounded_time(*s, link, wake_s);
  return wake_s;
}

platform::SharedLink fit_shared_link(std::vector<SharedSample*>& samples) {
  TRIREME_CHECK(!samples.empty());
  double smallest = samples.front()->bytes;
  for (const SharedSample* s : samples) smallest = std::min(smallest, s->bytes);
  Samples small;
  for (SharedSample* s : samples)
    if (s->bytes == smallest) small.push_back(s);
  const auto [latency_s, message_s] = fit_messages(small);
  // One message of each member at a time, and all partners at once: many flows into one card share it less well.
  Samples alone, crowded;
  int partners = 1 << 30;
  for (SharedSample* s : samples) {
    (s->messages > 1 ? crowded : alone).push_back(s);
    if (s->messages > 1) partners = std::min(partners, s->messages);
  }
  if (crowded.empty()) crowded = alone;
  const bool of_card = samples.front()->level == "network";
  std::vector<Model> buckets{{.latency_s = latency_s, .message_s = message_s}}, blends;
  for (double bytes = 1024; of_card && bytes < 1 << 20; bytes *= 1.1)
    buckets.push_back({.latency_s = latency_s, .message_s = message_s, .bucket_bytes = bytes});
  Model one{.latency_s = latency_s, .message_s = message_s};
  if (!alone.empty()) one = best_of(alone, buckets);
  for (const double blend : {0.0, 1.0, 1.5, 2.0, 3.0, 5.0})
    blends.push_back({.latency_s = latency_s, .message_s = message_s, .bucket_bytes = one.bucket_bytes, .blend = blend});
  const Model all = best_of(crowded, blends);
  one.blend = all.blend;
  std::vector<double> residuals;
  for (SharedSample* s : samples) {
    s->fitted_s = (s->messages > 1 ? all : one).seconds(*s);
    residuals.push_back(std::abs(s->fitted_s / s->median_s - 1));
  }
  std::sort(residuals.begin(), residuals.end());
  return {.level = samples.front()->level,
          .source = platform::Source::measured,
          .latency_s = latency_s,
          .message_s = message_s,
          .bytes_per_s = all.seconds_per_byte > 0 ? 1 / all.seconds_per_byte : 1e15,
          .alone_bytes_per_s = one.seconds_per_byte > 0 ? 1 / one.seconds_per_byte : 0,
          .partners = alone.size() == samples.size() ? 1 : partners,
          .bucket_bytes = one.bucket_bytes,
          .blend = all.blend,
          .residual = residuals[residuals.size() / 2]};
}

}  // namespace trireme::comm
