// How long messages and collectives take: measured tables where the platform has them, else latency and bandwidth of
// the link, with the formula of the algorithm.
#pragma once
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/platform_spec.h"

namespace trireme::platform {

enum class Level { host, network };
const char* name_of(Level level);

class NetworkCurves {
 public:
  explicit NetworkCurves(const PlatformSpec& spec) : spec_(&spec) {}  // kept by reference

  const PlatformSpec& spec() const { return *spec_; }

  // One message between two ranks: the send_receive table of the level, else latency + bytes / bandwidth(bytes).
  Seconds message(Level level, double bytes) const;

  // `bytes`: of the tensor, the same on every rank. The table for this many ranks (or the nearest, scaled by
  // (p-1)/p), else a ring: 2 (p-1) messages of bytes / p each.
  Seconds all_reduce(Level level, int ranks, double bytes) const;

  // Every rank sends bytes_to_others / (p-1) to each other one. The table (whose bytes hold the own part too) for this
  // many ranks or the nearest number, at equal bytes to others; else p-1 messages one after another: they share the
  // rank's link.
  Seconds all_to_all(Level level, int ranks, double bytes_to_others) const;

  bool measured(Collective kind, Level level, int ranks) const;

 private:
  const CollectiveTable* table(Collective kind, Level level, int ranks, bool exactly) const;
  const PlatformSpec* spec_;
};

}  // namespace trireme::platform
