// `trireme plan --model`: searches the layout of a model on a machine, or estimates a given one, and says what it
// found.
#pragma once
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
};

// A run's file with a [published] table: its layout, estimated as --model's are.
void plan_published(const LayoutPlanOptions& options, const plan::RunSpec& run, const Context& context);
void plan_layout(const LayoutPlanOptions& options, const Context& context);

// Says on standard error how far a search is, once it has taken two seconds.
void show_progress(const search::Progress& progress);

}  // namespace trireme::apps
