// Searches the layout of a model on a machine by bounds, or estimates a given one, and says what was found.
#pragma once
#include <functional>
#include <string>

#include "plan/run_spec.h"
#include "search/layouts/layout_search.h"
#include "trireme/question_choice.h"

namespace trireme::apps {

struct LayoutPlanOptions {
  QuestionOptions question;
  std::string csv, html, trace;
  int top = 10, threads = 0;
  bool json = false, explain = false, pareto = false;
  std::string out;                                                // a file for the best layout as a run; empty: none
  std::function<plan::RunSpec(const sim::Setting&)> as_run = {};  // with `out`: the run that has this layout
};

// Searches the question, or estimates its one layout, and prints what was found.
void plan_question(const LayoutPlanOptions& options, const ChosenQuestion& chosen);

// A run's file with a [published] table: its layout, estimated as --model's are.
void plan_published(const LayoutPlanOptions& options, const plan::RunSpec& run, const Context& context);

// Says on standard error how far a search is, once it has taken two seconds.
void show_progress(const search::Progress& progress);

}  // namespace trireme::apps
