#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

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

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder) {
  const double time = now_s();
  path_ = folder / fmt::format("events.out.tfevents.{:.0f}.{}.{}", time, host_name(), ::getpid());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    throw ConfigError({.file = path_.string(), .allowed = fmt::format("cannot be written: {}", std::strerror(errno))});
  }
  write(ScalarEvent{.wall_time = time, .file_version = "brain.Event:2"});
}

TensorBoardWriter::~TensorBoardWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void TensorBoardWriter::write(const StepMetrics& metrics) {
  ScalarEvent event{.wall_time = now_s(), .step = metrics.step};
  const nlohmann::ordered_json fields = to_json(metrics);
  for (const auto& [name, value] : fields.items()) {
    if (name == "step" || !value.is_number()) continue;
    const std::string tag = name == "eval_loss"     ? "eval/loss"
                            : name == "bigram_loss" ? "eval/bigram_loss"
                                                    : "train/" + name;
    event.scalars.push_back({tag, value.get<float>()});
  }
  write(event);
}

void TensorBoardWriter::write(const ScalarEvent& event) {
  const std::string record = frame_record(encode_event(event));
  for (std::size_t done = 0; done < record.size();) {
    const ssize_t n = ::write(fd_, record.data() + done, record.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      throw RuntimeFailure(
          {.operation = "metrics", .reason = fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno))});
    }
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace trireme::train
