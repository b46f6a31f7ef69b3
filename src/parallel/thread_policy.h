// How the threads of a rank ask for the processor when ranks share cores.
#pragma once

namespace trireme::parallel {

// Batch scheduling (sched(7), SCHED_BATCH) for the calling thread and for all threads that it makes afterwards: a
// thread that wakes up does not push aside the one that runs. Call it before the process groups are made.
//
// Gloo's event loop skips a connection whose lock is held and polls again at once. When the loop's thread pushes aside
// the very thread that holds the lock, which a message over loopback provokes, it spins until its time slice is over:
// an expert-parallel step of small messages spent four fifths of its processor time there. Needs no privilege. Does
// nothing where the system has no such policy.
void use_batch_scheduling();

}  // namespace trireme::parallel
