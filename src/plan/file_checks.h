// What the values of a run's files must be beyond their shape, before anything computes with them.
#pragma once
#include <string>

#include "plan/run_files.h"

namespace trireme::plan {

// ConfigError with the file and what is wrong first: a mesh that is none, a schedule or actions that no rank could
// execute (problems()), a span that ends before it starts.
void check(const Plan& plan, const std::string& file);
void check(const Prediction& prediction, const std::string& file);
void check(const MeasuredRank& measured, const std::string& file);
void check(const Costs& costs, const std::string& file);

// A prediction, costs or a measurement that is of another plan: other ranks, spans, stages, phases of actions that there are not.
void check_fits(const Prediction& prediction, const Plan& plan, const std::string& file);
void check_fits(const Costs& costs, const Plan& plan, const std::string& file);
void check_fits(const std::vector<MeasuredRank>& measured, const Plan& plan, const std::string& folder);

}  // namespace trireme::plan
