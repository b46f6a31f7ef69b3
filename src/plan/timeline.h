// When every action ran, predicted by `sim` or measured by a run: the same shape, so that they lie side by side.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace trireme::plan {

struct Span {
  double start_s = 0;  // from the step's start on this rank; an action starts when its lane is free and its waits are done
  double end_s = 0;
  bool operator==(const Span&) const = default;
};
TRIREME_JSON(Span)

// A phase of a dispatch or combine, inside its action: one of the pattern's phases for one of the things that travel.
struct PhaseSpan {
  int action = -1;
  std::string part;   // "counts", "experts", "rows", "scores"
  std::string phase;  // the pattern's own name of it
  double start_s = 0, end_s = 0;
  bool operator==(const PhaseSpan&) const = default;
};
TRIREME_JSON(PhaseSpan)

struct RankTimeline {
  int rank = 0;
  std::vector<Span> spans;         // aligned with the stage's actions
  std::vector<PhaseSpan> phases;   // of its exchanges, action by action; independent ones overlap
  double step_s = 0;
  double peak_memory_bytes = 0;
  bool operator==(const RankTimeline&) const = default;
};
TRIREME_JSON(RankTimeline)

}  // namespace trireme::plan
