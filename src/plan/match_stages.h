// match() for plans that nobody has checked.
#pragma once
#include "plan/rendezvous.h"

namespace trireme::plan {

// Fills `out` as match() does. Which action has no partner; empty: every one has its own.
std::string match_stages(const Plan& plan, Rendezvous& out);

}  // namespace trireme::plan
