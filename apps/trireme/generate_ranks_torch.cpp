#include <thread>

#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/errors.h"
#include "comm/launch_env.h"
#include "train/generate/layout_decoder.h"
#include "trireme/generate_texts.h"
#include "trireme/launch.h"
#include "trireme/rank_life.h"

namespace trireme::apps {

namespace {

// Thrown on the other ranks where rank 0 has found bad input: it says which.
struct NothingToDo {};

// Rank 0 has the prompts, and tells the others for how many texts of which length.
struct Sizes {
  std::int64_t slots = 0, capacity = 0;
};

constexpr const char* sizes_key = "generate";
constexpr const char* read_key = "generate/read";

TextPlan plan_and_tell(const GenerateCall& call, const OpenModel& model, const nn::Model& part, int world,
                       c10d::Store& store) {
  try {
    TextPlan texts = plan_texts(call, model);
    check_cache(part, texts);
    store.set(sizes_key, nlohmann::json{texts.options.slots, texts.capacity}.dump());
    return texts;
  } catch (const ConfigError&) {
    // The others must have read that there is nothing to do before the store ends with this rank.
    store.set(sizes_key, "null");
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (store.add(read_key, 0) < world - 1 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    throw;
  }
}

Sizes be_told(c10d::Store& store) {
  const auto told = nlohmann::json::parse(store.get_to_str(sizes_key));
  store.add(read_key, 1);
  if (told.is_null()) throw NothingToDo();
  return {told.at(0).get<std::int64_t>(), told.at(1).get<std::int64_t>()};
}

void generate_as_rank(const GenerateCall& call, const OpenModel& model, const plan::Mesh& mesh, int rank,
                      comm::Communicator& communicator, c10d::Store& store) {
  const auto part = read_part(model, train::hosted_for_generation(model.spec(), mesh, rank), rank);
  if (rank > 0) {
    const Sizes sizes = be_told(store);
    train::LayoutDecoder(*part, mesh, communicator, rank, sizes.slots, sizes.capacity).serve();
    return;
  }
  const TextPlan texts = plan_and_tell(call, model, *part, mesh.world(), store);
  train::LayoutDecoder decoder(*part, mesh, communicator, rank, texts.options.slots, texts.capacity);
  write_texts(call, model, texts, decoder.decoder(), decoder.cache_bytes());
  decoder.finish();
}

// The ranks on this host are this command line again. Bad input is said here, once; what stands on standard input is
// read here, too, and goes to them as an option.
int launch(GenerateCall call, const OpenModel& model, int ranks, const Context& context,
           std::chrono::milliseconds timeout) {
  const PromptOptions& prompts = call.prompts;
  const bool from_input = prompts.texts.empty() && prompts.file.empty() && prompts.ids.empty();
  take_input(call.prompts);
  plan_texts(call, model);
  Context of_ranks = context;
  if (from_input) {
    const std::string& text = call.prompts.texts.front();
    constexpr std::size_t largest = 100'000;  // of one argument of a program: Linux takes 128 KiB
    if (text.size() > largest || text.find('\0') != std::string::npos)
      throw ConfigError(
          {.key = "--prompt-file",
           .allowed = fmt::format(
               "for several ranks, a prompt on standard input has at most {} bytes, none of them 0: name it as a file",
               largest)});
    if (text.empty())
      of_ranks.arguments.insert(of_ranks.arguments.end(), {"--prompt", ""});
    else
      of_ranks.arguments.push_back("--prompt=" + text);
  }
  return launch_local({.ranks = ranks, .timeout = timeout}, of_ranks);
}

}  // namespace

int generate_on_ranks(const GenerateCall& call, const Context& context) {
  const comm::LaunchEnv env = find_place(context);
  if (env.source != comm::LaunchSource::single) wait_asleep(context);
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(call.timeout_s * 1e3));
  const OpenModel model = open_model(call);
  const plan::Mesh mesh = train::generation_mesh(model.spec(), call.pp, call.ep);
  if (env.source == comm::LaunchSource::single) return launch(call, model, mesh.world(), context, timeout);
  if (env.world != mesh.world())
    throw ConfigError({.key = "--pp",
                       .value = fmt::format("{} x --ep {}", call.pp, call.ep),
                       .allowed = fmt::format("{} ranks, which {} has started", env.world, comm::name_of(env.source))});
  RankLife life(env, timeout, "generate");
  return life.run([&] {
    life.find_local_ranks();
    comm::Communicator& communicator = life.meet(mesh, "cpu", threads_of_rank(call.threads, life.env(), context));
    try {
      generate_as_rank(call, model, mesh, env.rank, communicator, life.store());
    } catch (const NothingToDo&) {
      return exit_bad_input;
    }
    return exit_ok;
  });
}

}  // namespace trireme::apps
