// A search's question from a command's options: models, platforms and stacks by name or file.
#pragma once
#include <string>
#include <vector>

#include "search/layouts/question.h"
#include "trireme/context.h"

namespace CLI {
class App;
}

namespace trireme::apps {

struct QuestionOptions {
  std::string model, platform, stack, precision;
  std::vector<std::string> set;  // KEY=VALUE
  long long devices = 0;
  long long global_batch = 0, sequence = 0;  // 0: as the keys say
  double memory_GiB = 0;                     // that a rank may need; 0: what the device has
};

struct ChosenQuestion {
  search::Question question;
  std::vector<std::string> assumptions;  // what nobody gave, one line each
};

// Adds --platform, --devices, --stack, --precision, --global-batch, --sequence, --memory-GiB and --set to a command.
void add_question_options(CLI::App& command, QuestionOptions& options);

// ConfigError with the nearest name for a model, platform or stack that there is none of.
ChosenQuestion choose_question(const QuestionOptions& options, const Context& context);
// The same for a model at hand, whatever options.model says, and for a platform at hand.
ChosenQuestion choose_question(const QuestionOptions& options, const Context& context, const model::ModelSpec& model);
ChosenQuestion choose_question(const QuestionOptions& options, const Context& context, const model::ModelSpec& model,
                               const platform::PlatformSpec& platform);

}  // namespace trireme::apps
