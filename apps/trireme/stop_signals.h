// SIGINT, SIGTERM and SIGUSR1 (as Slurm sends before the time limit) ask for a stop at the end of the step.
#pragma once

namespace trireme::apps {

void catch_stop_signals();  // once, before threads are made
bool stop_was_requested();

}  // namespace trireme::apps
