#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "train/generate/utf8_text.h"
#include "trireme/generate_output.h"
#include "trireme/standard_output.h"

namespace trireme::apps {

namespace {

struct Text {
  std::unique_ptr<train::TokenText> tokens;  // null without a tokenizer
  train::StopTexts stops;
  std::string text;       // all of it
  std::size_t shown = 0;  // of its characters
  bool ended = false;
  train::Generated result;
};

}  // namespace

struct GenerateOutput::State {
  GenerateOutputOptions options;
  const train::Tokenizer* tokenizer;
  const std::vector<Prompt>& prompts;
  const std::vector<train::Request>& requests;
  std::vector<Text> texts;
  std::size_t current = 0;  // the text that is being shown
  bool begun = false;       // its prompt has been

  void write(const std::string& text) const {
    write_output(options.terminal ? train::printable(text) : text);
  }

  const Prompt& prompt_of(std::size_t request) const {
    return prompts[static_cast<std::size_t>(requests[request].prompt_number)];
  }

  void show_json(std::size_t request) const {
    const Text& t = texts[request];
    const Prompt& prompt = prompt_of(request);
    const double seconds = t.result.seconds;
    nlohmann::json line{{"prompt_number", requests[request].prompt_number},
                        {"sample", requests[request].sample_number},
                        {"prompt", train::utf8_text(prompt.text, true).text},
                        {"prompt_tokens", prompt.tokens},
                        {"tokens", t.result.tokens},
                        {"finish", train::name_of(t.result.finish)},
                        {"seed", options.seed},
                        {"tokens_per_s", seconds > 0 ? static_cast<double>(t.result.tokens.size()) / seconds : 0.0}};
    if (tokenizer != nullptr) line["text"] = t.text;
    print_output("{}\n", line.dump());
  }

  // Shows what can be shown by now: the current text as far as it goes, and the next ones once it has ended.
  void show() {
    for (; current < texts.size(); ++current, begun = false) {
      Text& t = texts[current];
      if (!options.json) {
        if (!begun) {
          if (texts.size() > 1)
            print_output("{}== prompt {}, sample {} ==\n", current > 0 ? "\n" : "", requests[current].prompt_number + 1,
                       requests[current].sample_number + 1);
          write(train::utf8_text(prompt_of(current).text, true).text);
          begun = true;
        }
        write(t.text.substr(t.shown));
        t.shown = t.text.size();
        if (t.ended) print_output("\n");
      } else if (t.ended) {
        show_json(current);
      }
      if (!t.ended) break;
    }
  }
};

GenerateOutput::GenerateOutput(GenerateOutputOptions options, const train::Tokenizer* tokenizer,
                               const std::vector<Prompt>& prompts, const std::vector<train::Request>& requests)
    : state_(std::make_unique<State>(
          State{.options = std::move(options), .tokenizer = tokenizer, .prompts = prompts, .requests = requests})) {
  for (std::size_t i = 0; i < requests.size(); ++i)
    state_->texts.push_back(
        {.tokens = tokenizer ? std::make_unique<train::TokenText>(*tokenizer, state_->prompt_of(i).tokens) : nullptr,
         .stops = train::StopTexts(state_->options.stops)});
}
GenerateOutput::~GenerateOutput() = default;

bool GenerateOutput::token(std::size_t request, std::int32_t token) {
  Text& t = state_->texts[request];
  if (t.tokens) {
    t.text += t.stops.add(t.tokens->add(token));
  } else {
    t.text += fmt::format("{}{}", t.text.empty() ? "" : " ", token);
  }
  if (request == state_->current) state_->show();
  return !t.stops.stopped();
}

void GenerateOutput::end(std::size_t request, const train::Generated& generated) {
  Text& t = state_->texts[request];
  if (t.tokens) {
    t.text += t.stops.add(t.tokens->finish());
    t.text += t.stops.finish();
  }
  t.ended = true;
  t.result = generated;
  if (t.stops.stopped()) t.result.finish = train::Finish::stop;
  if (request == state_->current) state_->show();
}

}  // namespace trireme::apps
