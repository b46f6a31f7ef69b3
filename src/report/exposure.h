// What the ranks of a pipeline wait for: idle time, bubbles and exposed messages by phase, of any timeline, so that one
// function tells them of what `sim` predicts, of what a rehearsal and of what a run measured.
//
// A rank is idle while its compute lane runs no action, from the step's start to its end. The time of a message is its
// action's span on its lane, the wait for a late partner included. Exposed is what of it lies in idle time. Messages of
// two lanes may be exposed at the same moment: exposed times of several kinds may add up to more than the idle time.
//
// Idle time consists of two parts that don't overlap. While a message among the ranks of the rank's own stage (dispatch
// and combine, a gradient reduction over data ranks) or a host copy is under way, the rank waits for that. The rest is
// the bubble: the rank waits for other stages, be it in a send, in a receive or in a reduction over the world, or for
// nothing. With messages that take no time the bubble is all idle time, as in a schedule's closed form.
//
// Phases of a rank, which follow each other from 0 to the step's end: warm-up until its first backward begins (an input
// gradient is one, and so is a joined pair); cool-down from the end of its last forward, but not before the warm-up's
// end; steady between. A forward that recomputes counts as a part of its backward. A step without a backward is all
// warm-up. In gpipe the steady phase is empty.
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "plan/plan.h"
#include "plan/timeline.h"

namespace trireme::report {

enum class PipelinePhase { warm_up, steady, cool_down };
inline constexpr int num_pipeline_phases = 3;
const char* name_of(PipelinePhase phase);  // "warm_up"

// Messages of one kind (report/action_kinds.h) of one rank, or of several, in one phase: what of their spans lies in
// it.
struct MessageTime {
  std::string kind;
  plan::Lane lane = plan::Lane::ep;
  double total_s = 0;
  double exposed_s = 0;
  bool operator==(const MessageTime&) const = default;
};

struct PhaseExposure {
  double length_s = 0, compute_s = 0;
  double bubble_s = 0;
  std::vector<MessageTime> messages;  // kinds in the order of their first action; those with time in this phase
  double idle_s() const { return length_s - compute_s; }
  double bubble_fraction() const { return length_s > 0 ? std::min(1.0, bubble_s / length_s) : 0; }  // sums round
  // Of the time of dispatches and combines; 0 where there are none.
  double exposed_all_to_all_fraction() const;
  void add(const PhaseExposure& other);
  bool operator==(const PhaseExposure&) const = default;
};

struct RankExposure {
  int rank = 0, stage = 0;
  std::array<PhaseExposure, num_pipeline_phases> phases;
  PhaseExposure step() const;  // all phases together
  bool operator==(const RankExposure&) const = default;
};

// The timeline's spans fit the plan. What lies outside of [0, step_s) is left out. O(n log n) in the actions.
RankExposure exposure(const plan::Plan& plan, const plan::RankTimeline& timeline);
std::vector<RankExposure> exposures(const plan::Plan& plan, const std::vector<plan::RankTimeline>& timelines);

// Of all these ranks together; the second of whole steps.
PhaseExposure of_phase(const std::vector<RankExposure>& ranks, PipelinePhase phase);
PhaseExposure of_step(const std::vector<RankExposure>& ranks);

// Idle time in pieces, in order, each with what the rank waits for: the kind of the message inside its stage (of
// several the one that began first), or "bubble".
struct IdlePiece {
  double start_s = 0, end_s = 0;
  std::string waits_for;
  bool operator==(const IdlePiece&) const = default;
};
std::vector<IdlePiece> idle_pieces(const plan::Plan& plan, const plan::RankTimeline& timeline);

}  // namespace trireme::report
