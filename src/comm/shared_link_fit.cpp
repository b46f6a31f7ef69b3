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

// What bytes took least of, all told. Where times do not grow with bytes (noise, or work that outlasts the wires) the
// wires are taken to be no faster than that.
double fastest_seen(const Samples& samples) {
  double out = 0;
  for (const SharedSample* s : samples) out = std::max(out, s->busiest_bytes / s->median_s);
  return out;
}

Model best_of(const Samples& samples, const std::vector<Model>& tried) {
  Model best = fit_bytes(samples, tried.front());
  for (const Model& model : tried)
    if (const Model fitted = fit_bytes(samples, model); fitted.error(samples) < best.error(samples) * (1 - 1e-6))
      best = fitted;
  return best;
}

// Of a burst with a bound: as one without, and the more.
double bounded_time(const SharedSample& s, const platform::SharedLink& link) {
  const double later_turns = static_cast<double>(s.messages) / s.in_flight - 1;
  return link.latency_s + s.messages * (link.message_s + link.wake_s) + later_turns * link.turn_s;
}

}  // namespace

void fit_turns(std::vector<SharedSample*>& bounded, platform::SharedLink& link) {
  link.wake_s = link.turn_s = 0;
  // Linear in both: least squares of the relative error, neither below 0.
  double ww = 0, wt = 0, tt = 0, wy = 0, ty = 0;
  for (const SharedSample* s : bounded) {
    const double w = s->messages / s->median_s, y = 1 - bounded_time(*s, link) / s->median_s,
                 t = (static_cast<double>(s->messages) / s->in_flight - 1) / s->median_s;
    ww += w * w;
    wt += w * t;
    tt += t * t;
    wy += w * y;
    ty += t * y;
  }
  const double determinant = ww * tt - wt * wt;
  if (bounded.empty()) {
    link.turn_s = -1;
  } else if (determinant < 1e-9 * ww * tt) {
    link.turn_s = std::max(0.0, ty / tt);  // one kind of burst: all of it is waiting
  } else {
    link.wake_s = (tt * wy - wt * ty) / determinant;
    link.turn_s = (ww * ty - wt * wy) / determinant;
    if (link.wake_s < 0 || link.turn_s < 0) {
      const bool turns_only = link.wake_s < 0;
      link.wake_s = turns_only ? 0 : std::max(0.0, wy / ww);
      link.turn_s = turns_only ? std::max(0.0, ty / tt) : 0;
    }
  }
  for (SharedSample* s : bounded) s->fitted_s = bounded_time(*s, link);
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
    blends.push_back(
        {.latency_s = latency_s, .message_s = message_s, .bucket_bytes = one.bucket_bytes, .blend = blend});
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
          .bytes_per_s = all.seconds_per_byte > 0 ? 1 / all.seconds_per_byte : fastest_seen(samples),
          .alone_bytes_per_s = one.seconds_per_byte > 0 ? 1 / one.seconds_per_byte : 0,
          .partners = alone.size() == samples.size() ? 1 : partners,
          .bucket_bytes = one.bucket_bytes,
          .blend = all.blend,
          .residual = residuals[residuals.size() / 2]};
}

}  // namespace trireme::comm
