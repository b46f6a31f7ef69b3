#include "parallel/thread_policy.h"

#include <pthread.h>
#include <sched.h>

namespace trireme::parallel {

void use_batch_scheduling() {
#ifdef SCHED_BATCH
  const sched_param parameters{};
  // Without effect is no failure: it is only slower.
  (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameters);
#endif
}

}  // namespace trireme::parallel
