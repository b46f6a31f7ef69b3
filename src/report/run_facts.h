// What stands on top of a report: of which run it is, on what.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/run_files.h"

namespace trireme::report {

struct Fact {
  std::string what;   // "model", "parameters", "layout", "date", "platform", "run"
  std::string value;
  bool operator==(const Fact&) const = default;
};

// Of a plan: model and parameters (total, active a token), layout, date (as given), platform and whether it was measured.
// `model` may be null where nobody knows it.
std::vector<Fact> plan_facts(const model::ModelSpec* model, const plan::Plan& plan, const plan::Prediction& prediction, std::string date);

// Of a run's folder: the same with run.toml's model, and the run's id and last start by run_info.json where there is one
// (else the date is that of plan.json). ConfigError for a run.toml or a run_info.json that is not what a run writes.
std::vector<Fact> run_facts(const std::filesystem::path& folder, const plan::Plan& plan, const plan::Prediction& prediction);

std::string facts_text(const std::vector<Fact>& facts);  // a line each
std::string now_text();                                  // "2026-12-01 11:00 UTC"

}  // namespace trireme::report
