#include "trireme/question_choice.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/units.h"
#include "model/model_catalog.h"
#include "platform/platform_file.h"
#include "search/layouts/question_table.h"
#include "search/validation/stack_facts.h"
#include "sim/rates/make_rates.h"
#include "trireme/config_folder.h"
#include "trireme/platform_choice.h"
#include "trireme/positive_number.h"

namespace trireme::apps {

namespace fs = std::filesystem;

void add_question_options(CLI::App& command, QuestionOptions& o) {
  command.add_option("--platform", o.platform, "platform file, or a name (dgx_h100)");
  command.add_option("--devices", o.devices, "number of devices")->check(whole_number(1, 100'000'000));
  command.add_option("--stack", o.stack,
                     "what software gets out of the machine: a stack profile's file or name, an entry of it "
                     "(published:torchtitan_compile), or \"uncalibrated\"");
  command.add_option("--precision", o.precision, "compute format: bfloat16, float16, float8, mxfp8, nvfp4 or float32");
  command.add_option("--global-batch", o.global_batch, "sequences a step")->check(whole_number(1, std::uint64_t{1} << 40));
  command.add_option("--sequence", o.sequence, "tokens of a sequence")->check(whole_number(1, std::uint64_t{1} << 40));
  command.add_option("--memory-GiB", o.memory_GiB, "memory that a rank may need (default: all of the device's)")
      ->check(positive_number());
}

ChosenQuestion choose_question(const QuestionOptions& o, const Context& context) {
  std::vector<std::string> of_model;
  for (const std::string& s : o.set)
    if (search::is_model_key(s)) of_model.push_back(s);
  return choose_question(o, context, model::find_model(o.model, config_folder(context) / "models", of_model));
}

ChosenQuestion choose_question(const QuestionOptions& o, const Context& context, const model::ModelSpec& model) {
  return choose_question(o, context, model, platform::load_platform(platform_file(o.platform, context)));
}

ChosenQuestion choose_question(const QuestionOptions& o, const Context& context, const model::ModelSpec& model,
                               const platform::PlatformSpec& platform) {
  const bool probed = sim::has_curves(platform), host = probed && platform.device.kind == "cpu";
  std::vector<std::string> overrides;
  // What trireme computes in on a CPU: first, so that a given precision stands.
  if (host) overrides.push_back("precision.compute=float32");
  for (const std::string& s : o.set)
    if (!search::is_model_key(s)) overrides.push_back(s);
  if (!o.precision.empty()) overrides.push_back("precision.compute=" + o.precision);
  if (o.global_batch > 0) overrides.push_back(fmt::format("batch.global_batch={}", o.global_batch));
  if (o.sequence > 0) overrides.push_back(fmt::format("batch.sequence_length={}", o.sequence));
  const search::GivenValues given = search::read_question(model, static_cast<int>(o.devices), overrides);

  const ChosenStack stack = find_stack(o.stack, context);
  // A probed machine is measured with trireme on it, which has no driver's contexts on a CPU and no stack's buffers.
  model::Kernels kernels = probed && o.stack.empty() ? model::find_kernels(host ? "trireme" : "trireme_device")
                                                     : search::kernels_of(stack.entry);
  if (!given.kernels.empty())
    kernels = names_a_file(given.kernels) ? model::load_kernels(given.kernels) : model::find_kernels(given.kernels);

  ChosenQuestion out;
  out.question.base = given.setting;
  out.question.given = given.given;
  out.question.target =
      search::make_target(platform, stack.profile, stack.entry, kernels, given.setting.precision.compute,
                          static_cast<int>(o.devices));
  if (const double device = out.question.target.capacity_bytes; o.memory_GiB > 0) {
    if (o.memory_GiB * GiB > device)
      throw ConfigError({.key = "--memory-GiB",
                         .value = fmt::format("{:g}", o.memory_GiB),
                         .allowed = fmt::format("at most the {:g} that {} has", device / GiB, platform.device.name)});
    out.question.target.capacity_bytes = o.memory_GiB * GiB;
  }
  const auto assume = [&](std::string line) { out.assumptions.push_back(std::move(line)); };
  for (const std::string& hint : given.hints) assume(hint);
  const sim::Setting& s = given.setting;
  if (!given.given.contains("batch.global_batch"))
    assume(fmt::format("a global batch of {} sequences (--global-batch)", s.batch.global_batch));
  if (!given.given.contains("batch.sequence_length"))
    assume(fmt::format("sequences of {} tokens (--sequence)", s.batch.sequence_length));
  const auto says_precision = [](const std::string& set) { return set.starts_with("precision"); };
  if (host && o.precision.empty() && std::ranges::none_of(o.set, says_precision))
    assume("float32, as trireme computes on a CPU (--precision)");
  if (probed && o.stack.empty())
    assume(fmt::format("kernels as {} has them (--set kernels=, --stack)", kernels.name));
  else if (o.stack.empty() && !stack.entry.empty())
    assume(fmt::format("software that behaves like {} (--stack)", stack.entry));
  if (const search::Target& target = out.question.target; target.threads > 0)
    assume(fmt::format("a device is a rank's share of the host {}: one of {} ranks of {} threads", platform.name,
                       target.ranks_of_host, target.threads));
  if (!out.question.target.device_known)
    assume(fmt::format("guessed efficiencies: the profile \"{}\" does not know the device {}", stack.profile.name,
                       platform.device.name));
  if (s.model.moe.num_experts > 0 && s.load.cv == 0 && s.load.counts.empty())
    assume("balanced experts (--set load.cv=0.5 for less)");
  return out;
}

}  // namespace trireme::apps
