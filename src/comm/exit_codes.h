// How a run on ranks may end besides base/errors.h's ways.
#pragma once

namespace trireme::comm {

// Stopped by a signal, with what it had saved: not finished, go on with --resume. EX_TEMPFAIL of sysexits.h ("try again
// later"): a scheduler must not take it for a finished run, nor for a failed one.
inline constexpr int exit_stopped = 75;
// Ended at once by a signal, with nothing saved since the last checkpoint: as a shell shows SIGINT.
inline constexpr int exit_killed_on_request = 130;
// Only between a rank and the launcher of --ranks, which ends with 3: a FinalFailure, after which no rank is started again.
inline constexpr int exit_final_failure = 4;

}  // namespace trireme::comm
