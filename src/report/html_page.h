// One HTML page with everything in it (no other file, no network): the timeline, predicted above measured, by rank and
// lane, with zoom and hover; memory; tables; the loss curve.
#pragma once
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/run_files.h"
#include "report/run_facts.h"
#include "report/run_report.h"

namespace trireme::report {

struct PageInput {
  std::string title;
  std::string text;                             // the text report, shown folded
  const plan::Plan& plan;
  const plan::Prediction& predicted;
  std::vector<plan::RankTimeline> measured;     // may be empty
  const RunReport* report = nullptr;            // tables and loss, where there was a run
  std::vector<Fact> facts = {};                 // on top of the page
  std::string measured_as = "measured";         // "rehearsed" where compute was emulated
};

// At most 64 ranks are drawn: beyond that the first of each stage.
std::string html_page(const PageInput& input);

// The page around the data: style, layout and script; "@TITLE@" and "@DATA@" are replaced, once
// each: what is put in stays as it is, whatever a run is called.
extern const char* const page_template;

}  // namespace trireme::report
