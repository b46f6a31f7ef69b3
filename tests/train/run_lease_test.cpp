#include "train/run_folder/run_lease.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "train/run_folder/lease_file.h"
#include "train/scratch_folder.h"

namespace trireme::train {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;
using std::chrono::milliseconds;

class Lease : public testing::Test {
 protected:
  ScratchFolder scratch_;
  fs::path folder_ = scratch_.path() / "run", file_ = folder_ / lease_file;
  std::vector<std::string> messages_;

  RunLeaseOptions options(const std::string& session) {
    return {.folder = folder_, .identity = {"run", session}, .renew = milliseconds(20), .stale = milliseconds(300),
            .on_message = [this](const std::string& text) { messages_.push_back(text); }};
  }
  std::string refused(const std::string& session) {
    try {
      RunLease lease(options(session));
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.detail().key, "folder");
      return error.what();
    }
    ADD_FAILURE() << "not refused";
    return {};
  }
  void write(const LeaseHolder& holder) {
    fs::create_directories(folder_);
    std::ofstream(file_) << lease_text(holder);
  }
  std::optional<LeaseHolder> holder() const {
    std::ifstream in(file_);
    return parse_lease({std::istreambuf_iterator<char>(in), {}});
  }
};

TEST_F(Lease, OneAtATimeAndFreeAgainAtTheEnd) {
  {
    const RunLease first(options("one"));
    EXPECT_EQ(holder()->identity, (RunIdentity{"run", "one"}));
    const std::string says = refused("two");
    EXPECT_THAT(says, HasSubstr("is in use by run run on "));
    EXPECT_THAT(says, HasSubstr("process " + std::to_string(::getpid())));
    EXPECT_TRUE(messages_.empty()) << "of a living process of this machine nothing has to be waited for";
    first.check();
  }
  EXPECT_TRUE(fs::is_empty(folder_)) << "nothing is left";
  const RunLease second(options("two"));
}

// Eight try at once; the others are refused while the one that has it holds it.
TEST_F(Lease, OfSeveralAtOnceExactlyOneGetsIt) {
  std::atomic<int> taken{0}, refused{0}, done{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      RunLeaseOptions mine{.folder = folder_, .identity = {"run", fmt::format("{}", i)}};
      try {
        const RunLease lease(mine);
        ++taken;
        ++done;
        while (done < 8) std::this_thread::yield();
      } catch (const ConfigError&) {
        ++refused;
        ++done;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(refused, 7);
}

// What a killed run leaves: the number of a process that was and is no more.
TEST_F(Lease, OfADeadProcessIsTakenAtOnce) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  LeaseHolder dead = this_process({"run", "old"});
  dead.pid = child;
  write(dead);
  RunLeaseOptions patient = options("new");
  patient.stale = std::chrono::hours(1);  // it would wait so long for another machine's
  const RunLease lease(patient);
  EXPECT_EQ(holder()->identity.session, "new");
  ASSERT_EQ(messages_.size(), 1u);
  EXPECT_THAT(messages_[0], HasSubstr("ended without giving it free"));
}

// The number is in use again, by a process that started at another time.
TEST_F(Lease, OfANumberThatIsUsedAgainIsTakenAtOnce) {
  LeaseHolder old = this_process({"run", "old"});
  old.started = "1";
  write(old);
  RunLeaseOptions patient = options("new");
  patient.stale = std::chrono::hours(1);
  const RunLease lease(patient);
  EXPECT_EQ(holder()->identity.session, "new");
}

TEST_F(Lease, OfAnotherMachineIsTakenWhenItsCounterStandsStill) {
  LeaseHolder other = this_process({"run", "old"});
  other.place = "another", other.host = "node7";
  write(other);
  const RunLease lease(options("new"));
  EXPECT_EQ(holder()->identity.session, "new");
  ASSERT_EQ(messages_.size(), 2u);
  EXPECT_THAT(messages_[0], HasSubstr("on node7"));
  EXPECT_THAT(messages_[0], HasSubstr("waiting up to"));
}

TEST_F(Lease, OfAnotherMachineWhoseCounterGoesOnIsRefused) {
  LeaseHolder other = this_process({"run", "old"});
  other.place = "another", other.host = "node7";
  write(other);
  std::atomic<bool> ends{false};
  std::thread beats([&] {
    while (!ends) {
      ++other.beat;
      std::ofstream(file_, std::ios::in | std::ios::out) << lease_text(other);
      std::this_thread::sleep_for(milliseconds(10));
    }
  });
  RunLeaseOptions patient = options("new");
  patient.stale = std::chrono::minutes(5);  // the counter ends the wait, not the time
  std::string says;
  try {
    RunLease lease(patient);
  } catch (const ConfigError& error) {
    says = error.what();
  }
  ends = true;
  beats.join();
  EXPECT_THAT(says, HasSubstr("is in use by run run on node7"));
}

TEST_F(Lease, HalfAFileIsNobodysWhenItStaysSo) {
  fs::create_directories(folder_);
  std::ofstream(file_) << "{\"run\": \"a";
  const RunLease lease(options("new"));
  EXPECT_EQ(holder()->identity.session, "new");
}

TEST_F(Lease, ItsCounterGoesUp) {
  const RunLease lease(options("one"));
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (holder().value_or(LeaseHolder{}).beat < 3 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_GE(holder()->beat, 3);
}

// As after a long stop of the process: another has taken the folder. It is told, and the other's lease stays.
TEST_F(Lease, ALostOneIsNoticedAndLeftAlone) {
  {
    const RunLease lease(options("one"));
    LeaseHolder other = this_process({"run", "two"});
    other.host = "node7";
    // Renamed into place, as no counter that is just being written may fall into it.
    std::ofstream(folder_ / "other") << lease_text(other);
    fs::rename(folder_ / "other", file_);
    try {
      lease.check();
      ADD_FAILURE() << "not noticed";
    } catch (const RuntimeFailure& error) {
      EXPECT_THAT(error.what(), HasSubstr("was taken over by run run on node7"));
    }
    std::this_thread::sleep_for(milliseconds(60));  // it renews nothing
    EXPECT_EQ(holder()->identity.session, "two");
  }
  EXPECT_EQ(holder()->identity.session, "two");
}

}  // namespace
}  // namespace trireme::train
