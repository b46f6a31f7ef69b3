#include "train/run_folder/run_lease.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/regular_file.h"
#include "train/run_folder/lease_file.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int most_attempts = 100;

// Opened afresh each time: a network file system looks at the server then.
std::optional<std::string> read_text(const fs::path& path) {
  std::ifstream in = open_regular(path);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

bool write_all(int fd, const std::string& text) {
  return ::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

[[noreturn]] void throw_errno(const fs::path& path) {
  throw std::system_error(errno, std::generic_category(), fmt::format("cannot write {}", path.string()));
}

}  // namespace

struct RunLease::State {
  RunLeaseOptions options;
  fs::path path, own;  // run.lock, and the name under which it is prepared
  LeaseHolder holder;
  int fd = -1;  // writes to it reach nobody else's lease, even where run.lock is another file by now
  mutable std::mutex mutex;
  std::condition_variable wake;
  bool ends = false;
  std::thread thread;

  void take();
  bool create();
  void break_stale(const std::string& text);
  void refuse(const std::optional<LeaseHolder>& found) const;
  bool stands_still(const std::string& text, const std::optional<LeaseHolder>& found) const;
  void renew();
  void keep_alive();
  std::optional<LeaseHolder> other_holder() const;
};

// The file under its own name first, then the link: whoever sees run.lock sees all of it.
bool RunLease::State::create() {
  fd = ::open(own.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) throw_errno(own);
  const auto give_up = [&] {
    ::close(fd);
    fd = -1;
    ::unlink(own.c_str());
  };
  if (!write_all(fd, lease_text(holder)) || ::fsync(fd) != 0) {
    const int error = errno;
    give_up();
    errno = error;
    throw_errno(path);
  }
  const bool linked = ::link(own.c_str(), path.c_str()) == 0;
  const int error = errno;
  // A network file system may lose the answer: two names mean that it was done.
  struct stat status {};
  if (linked || (::fstat(fd, &status) == 0 && status.st_nlink == 2)) {
    ::unlink(own.c_str());
    return true;
  }
  give_up();
  if (error == EEXIST) return false;
  if (error != EPERM && error != ENOTSUP && error != ENOSYS && error != EMLINK) {
    errno = error;
    throw_errno(path);
  }
  // No links here: made exclusively instead.
  fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0 && errno == EEXIST) return false;
  if (fd < 0 || !write_all(fd, lease_text(holder))) throw_errno(path);
  return true;
}

// Two may find the same lease stale. Each takes away what it finds, looks whether it was that one, and puts back what
// was not.
void RunLease::State::break_stale(const std::string& text) {
  if (::rename(path.c_str(), own.c_str()) != 0) return;  // another was faster
  const auto taken = read_text(own);
  const auto before = parse_lease(text), now = parse_lease(taken.value_or(""));
  const bool same = before && now ? before->identity == now->identity : taken == text;
  if (!same) ::link(own.c_str(), path.c_str());
  ::unlink(own.c_str());
  if (same && options.on_message)
    options.on_message(before ? fmt::format("took over the folder of a run that has ended without giving it free ({})", describe(*before))
                              : fmt::format("removed {}, which nobody keeps", path.string()));
}

void RunLease::State::refuse(const std::optional<LeaseHolder>& found) const {
  throw ConfigError({.key = "folder",
                     .value = options.folder.string(),
                     .allowed = fmt::format("is in use by {}: wait for it or stop it, or give this run another folder",
                                            found ? describe(*found) : "a program that writes " + path.string())});
}

// Watches a counter of another machine.
bool RunLease::State::stands_still(const std::string& text, const std::optional<LeaseHolder>& found) const {
  if (options.on_message)
    options.on_message(fmt::format("{} holds {}: waiting up to {:.0f} s for a sign of life",
                                   found ? describe(*found) : "an unknown program", options.folder.string(),
                                   std::chrono::duration<double>(options.stale).count()));
  const auto end = Clock::now() + options.stale;
  while (Clock::now() < end) {
    std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(options.renew / 2, std::chrono::milliseconds(500)));
    if (options.stop_requested && options.stop_requested())
      throw RuntimeFailure({.operation = "lock the run's folder", .reason = "stopped while waiting for the folder's holder"});
    if (read_text(path) != text) return false;
  }
  return true;
}

void RunLease::State::take() {
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    if (create()) return;
    const auto text = read_text(path);
    if (!text) continue;  // given free between the two
    const auto found = parse_lease(*text);
    const auto dead = found ? is_dead(*found) : std::nullopt;
    if (dead == false) refuse(found);
    if (dead == true || stands_still(*text, found)) break_stale(*text);
    else if (read_text(path)) refuse(parse_lease(read_text(path).value_or("")));
  }
  refuse(std::nullopt);
}

std::optional<LeaseHolder> RunLease::State::other_holder() const {
  const auto text = read_text(path);
  const auto found = text ? parse_lease(*text) : std::nullopt;
  return found && found->identity.session != holder.identity.session ? found : std::nullopt;
}

// A counter that can't be written (a full disk, a server that is away) is no reason to stop: whoever waits for it decides.
void RunLease::State::renew() {
  if (other_holder()) return;
  ++holder.beat;
  if (!fs::exists(path) && fs::exists(options.folder)) {
    // Someone has removed it.
    ::close(fd);
    fd = -1;
    try {
      create();
    } catch (const std::system_error&) {
    }
  }
  if (fd >= 0 && write_all(fd, lease_text(holder))) ::fsync(fd);
}

void RunLease::State::keep_alive() {
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, options.renew, [&] { return ends; })) renew();
}

RunLease::RunLease(RunLeaseOptions options) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.options = std::move(options);
  s.path = s.options.folder / lease_file;
  s.own = s.options.folder / fmt::format("{}.{}", lease_file, s.options.identity.session);
  s.holder = this_process(s.options.identity);
  fs::create_directories(s.options.folder);
  s.take();
  s.thread = std::thread([&s] { s.keep_alive(); });
}

RunLease::~RunLease() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ends = true;
    state_->wake.notify_all();
  }
  state_->thread.join();
  const auto text = read_text(state_->path);
  const auto found = text ? parse_lease(*text) : std::nullopt;
  if (found && found->identity.session == state_->holder.identity.session) ::unlink(state_->path.c_str());
  if (state_->fd >= 0) ::close(state_->fd);
}

const RunIdentity& RunLease::identity() const { return state_->options.identity; }

void RunLease::check() const {
  if (const auto other = state_->other_holder())
    throw RuntimeFailure({.rank = 0,
                          .operation = "keep the run's folder",
                          .reason = fmt::format("{} was taken over by {}: this run gave no sign of life for too long, and writes "
                                                "nothing there any more", state_->options.folder.string(), describe(*other))});
}

}  // namespace trireme::train
