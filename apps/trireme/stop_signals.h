// SIGINT, SIGTERM, SIGUSR1 (as Slurm sends before the time limit) and SIGHUP (unless it is ignored, as nohup has it) ask for a
// stop at the end of what is being done: a step, a pass of an evaluation. Until they are caught they end the process at once,
// with nothing to save.
#pragma once

namespace trireme::apps {

struct StopSignals {
  bool says_so = false;       // at once, on standard error: one rank does
  bool second_kills = false;  // a second SIGINT or SIGTERM ends the process: where no launcher does that
};
void catch_stop_signals(StopSignals how);  // once
// The same as a signal, for another reason: "nobody reads standard output any more". It is said.
void request_stop(const char* why);
bool stop_was_requested();
// What a stop that is asked for now waits for: "this step". The text must live as long as the process.
void stop_comes_after(const char* what);

}  // namespace trireme::apps
