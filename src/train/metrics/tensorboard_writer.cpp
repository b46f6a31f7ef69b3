#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "train/metrics/tensorboard.h"

namespace trireme::train {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

constexpr std::string_view name_prefix = "events.out.tfevents.";

// The whole second behind every file's that is there: two sessions may start within one second.
std::int64_t free_second(const std::filesystem::path& folder, std::int64_t now) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(name_prefix)) continue;
    std::int64_t second = 0;
    std::from_chars(name.data() + name_prefix.size(), name.data() + name.size(), second);
    if (second < INT64_MAX) now = std::max(now, second + 1);
  }
  return now;
}

}  // namespace

std::vector<Scalar> scalars_of(const RouterLoad& load) {
  std::vector<Scalar> out;
  const auto add = [&](const char* what, const std::vector<double>& by_layer) {
    for (std::size_t i = 0; i < by_layer.size(); ++i)
      out.push_back({fmt::format("router_{}/layer_{:02}", what, load.first_layer + static_cast<int>(i)),
                     static_cast<float>(by_layer[i])});
  };
  add("max_over_mean", load.max_over_mean);
  add("min_over_mean", load.min_over_mean);
  add("cv", load.cv);
  return out;
}

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder, std::int64_t first_step) {
  const double time = now_s();
  path_ = folder;
  try {
    std::filesystem::create_directories(folder);
    path_ = folder / fmt::format("{}{}.{}.{}", name_prefix, free_second(folder, static_cast<std::int64_t>(time)), host_name(),
                                 ::getpid());
    file_ = std::make_unique<AppendFile>(path_);
  } catch (const std::system_error& e) {
    if (!is_bad_path(e.code())) throw;
    throw ConfigError({.file = path_.string(), .allowed = fmt::format("cannot be written: {}", e.what())});
  }
  write(ScalarEvent{.wall_time = time, .file_version = "brain.Event:2"});
  write(ScalarEvent{.wall_time = time, .step = first_step, .session_start = true});
}

void TensorBoardWriter::write(const StepMetrics& metrics) {
  ScalarEvent event{.wall_time = now_s(), .step = metrics.step};
  if (metrics.step <= last_step_) write(ScalarEvent{.wall_time = event.wall_time, .step = metrics.step, .session_start = true});
  last_step_ = metrics.step;
  const nlohmann::ordered_json fields = to_json(metrics);
  for (const auto& [name, value] : fields.items()) {
    if (name == "step" || !value.is_number()) continue;
    const std::string tag = name == "eval_loss"     ? "eval/loss"
                            : name == "bigram_loss" ? "eval/bigram_loss"
                                                    : "train/" + name;
    event.scalars.push_back({tag, value.get<float>()});
  }
  for (const auto& [name, tokens] : metrics.tokens_by_set)
    event.scalars.push_back({"data/tokens/" + name, static_cast<float>(tokens)});
  for (const auto& [name, loss] : metrics.eval_loss_by_set)
    if (std::isfinite(loss)) event.scalars.push_back({"eval/loss/" + name, static_cast<float>(loss)});
  if (metrics.router_load)
    for (Scalar& scalar : scalars_of(*metrics.router_load)) event.scalars.push_back(std::move(scalar));
  write(event);
}

void TensorBoardWriter::write(const ScalarEvent& event) {
  try {
    file_->append(frame_record(encode_event(event)));
  } catch (const std::system_error& e) {
    throw RuntimeFailure({.operation = "metrics", .reason = e.what()});
  }
}

}  // namespace trireme::train
