#include "platform/network_curves.h"

#include <cmath>

#include "base/errors.h"
#include "platform/log_surface.h"

namespace trireme::platform {

const char* name_of(Level level) { return level == Level::host ? "host" : "network"; }

namespace {

// Seconds between measured points are interpolated in log space; below the smallest they stay, above the largest they
// grow with the bytes.
double seconds_at(const CollectiveTable& t, double bytes) {
  std::size_t smallest = 0, largest = 0;
  for (std::size_t i = 0; i < t.bytes.size(); ++i) {
    if (t.bytes[i] < t.bytes[smallest]) smallest = i;
    if (t.bytes[i] > t.bytes[largest]) largest = i;
  }
  if (bytes <= t.bytes[smallest]) return t.seconds[smallest];
  if (bytes >= t.bytes[largest]) return t.seconds[largest] * bytes / t.bytes[largest];
  return LogSurface({t.bytes}, t.seconds).at({bytes});
}

}  // namespace

const CollectiveTable* NetworkCurves::table(Collective kind, Level level, int ranks, bool exactly) const {
  const CollectiveTable* best = nullptr;
  for (const CollectiveTable& t : spec_->collectives) {
    if (t.kind != kind || t.level != name_of(level) || (exactly && t.ranks != ranks)) continue;
    if (!best || std::abs(std::log(double(t.ranks) / ranks)) < std::abs(std::log(double(best->ranks) / ranks))) best = &t;
  }
  return best;
}

bool NetworkCurves::measured(Collective kind, Level level, int ranks) const {
  const CollectiveTable* t = table(kind, level, ranks, true);
  return t && t->source == Source::measured;
}

Seconds NetworkCurves::message(Level level, double bytes) const {
  if (const CollectiveTable* t = table(Collective::send_receive, level, 2, false)) return Seconds(seconds_at(*t, bytes));
  const Link* link = nullptr;
  for (const Link& l : spec_->links)
    if (l.level == name_of(level)) link = &l;
  if (!link)
    throw ConfigError({.key = "link", .allowed = std::string("is missing for level ") + name_of(level) +
                                                 ", which this layout uses"});
  if (bytes <= 0) return Seconds(link->latency_s);
  return Seconds(link->latency_s + bytes / LogSurface({link->bytes}, link->bytes_per_s).at({bytes}));
}

Seconds NetworkCurves::all_reduce(Level level, int ranks, double bytes) const {
  if (ranks <= 1) return Seconds(0);
  if (const CollectiveTable* t = table(Collective::all_reduce, level, ranks, false)) {
    const auto share = [](int p) { return (p - 1.0) / p; };
    return Seconds(seconds_at(*t, bytes) * share(ranks) / share(t->ranks));
  }
  return 2.0 * (ranks - 1) * message(level, bytes / ranks);
}

Seconds NetworkCurves::all_to_all(Level level, int ranks, double bytes_to_others) const {
  if (ranks <= 1) return Seconds(0);
  if (const CollectiveTable* t = table(Collective::all_to_all, level, ranks, false)) {
    return Seconds(seconds_at(*t, bytes_to_others * t->ranks / (t->ranks - 1.0)));
  }
  return (ranks - 1.0) * message(level, bytes_to_others / (ranks - 1.0));
}

}  // namespace trireme::platform
