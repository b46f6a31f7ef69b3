// A run's plan with its price, told: text, JSON, a page and a trace.
#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "platform/platform_spec.h"
#include "trireme/run_plan.h"

namespace trireme::apps {

struct PlanOutput {
  std::string html, trace;  // files; empty: none
  bool json = false, explain = false, actions = false;
};

std::string run_text(const RunPlan& planned, const platform::PlatformSpec& platform, const PlanOutput& output);
nlohmann::json run_json(const RunPlan& planned, const platform::PlatformSpec& platform, const PlanOutput& output);
void write_run_pages(const RunPlan& planned, const platform::PlatformSpec& platform, const PlanOutput& output);

}  // namespace trireme::apps
