#include "comm/connect_store.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/errors.h"
#include "comm/liveness.h"
#include "comm/told_once.h"
#include "support/rank_threads.h"

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::text_of;

template <class Act>
std::string failure_of(Act&& act) {
  try {
    act();
  } catch (const RuntimeFailure& failure) {
    return failure.what();
  }
  return "no failure";
}

LaunchEnv client_of(const std::string& host, int port, const std::string& token = "run") {
  return {.rank = 1,
          .world = 2,
          .local_rank = 1,
          .local_world = 2,
          .master_addr = host,
          .master_port = port,
          .token = token};
}

// The addresses at which this process listens on a port, as the kernel lists them: hexadecimal, in /proc/net/tcp and
// tcp6.
std::vector<std::string> listening_at(int port) {
  std::vector<std::string> out;
  const std::string end = fmt::format(":{:04X}", port);
  for (const char* file : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream in(file);
    for (std::string number, local, remote, state, rest;
         in >> number >> local >> remote >> state && std::getline(in, rest);)
      if (state == "0A" && local.ends_with(end)) out.push_back(local.substr(0, local.find(':')));
  }
  return out;
}

bool has_ipv6() {
  const int fd = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool ok = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  if (fd >= 0) close(fd);
  return ok;
}

TEST(ConnectStore, ASingleRankNeedsNoNetwork) {
  const auto store = connect_store({}, milliseconds(100));
  store->set("a", std::string("b"));
  EXPECT_EQ(store->get_to_str("a"), "b");
}

TEST(ConnectStore, RankZeroListensOnlyWhereTheAddressSays) {
  const Listener free = listen_at("127.0.0.1", 0, false, milliseconds(1000));
  close(free.fd);
  LaunchEnv server = client_of("127.0.0.1", free.port);
  server.rank = server.local_rank = 0;
  server.serves_store = true;
  std::vector<std::string> said;
  const auto store = connect_store(server, milliseconds(5000), [&](const std::string& text) { said.push_back(text); });
  // 127.0.0.1 in the byte order of a little-endian machine.
  EXPECT_EQ(listening_at(free.port), std::vector<std::string>{"0100007F"});
  EXPECT_TRUE(said.empty());
  const auto client = connect_store(client_of("127.0.0.1", free.port), milliseconds(5000));
  store->set("a", std::string("b"));
  EXPECT_EQ(client->get_to_str("a"), "b");
  // A port that is taken is named.
  EXPECT_THAT(failure_of([&] { connect_store(server, milliseconds(500)); }),
              AllOf(HasSubstr("Address already in use"), HasSubstr("[operation serve the store at 127.0.0.1:")));
}

TEST(ConnectStore, IPv6WithAndWithoutBrackets) {
  if (!has_ipv6()) GTEST_SKIP() << "this machine has no IPv6";
  for (const std::string host : {"[::1]", "::1"}) {
    const Listener free = listen_at(host, 0, false, milliseconds(1000));
    EXPECT_EQ(free.address, "::1");
    close(free.fd);
    LaunchEnv server = client_of(host, free.port);
    server.rank = server.local_rank = 0;
    server.serves_store = true;
    const auto store = connect_store(server, milliseconds(5000));
    EXPECT_EQ(listening_at(free.port), std::vector<std::string>{"00000000000000000000000001000000"});
    const auto client = connect_store(client_of(host, free.port), milliseconds(5000));
    client->set("a", std::string("b"));
    EXPECT_EQ(store->get_to_str("a"), "b");
  }
}

TEST(ConnectStore, AnAddressThatIsTranslatedOnTheWayIsServedOnEveryInterface) {
  // 192.0.2.0/24 is for documentation (RFC 5737): no interface has it.
  const Listener all = listen_at("192.0.2.7", 0, true, milliseconds(1000));
  EXPECT_THAT(all.note, AllOf(HasSubstr("192.0.2.7"), HasSubstr("every interface")));
  EXPECT_GT(all.port, 0);
  close(all.fd);
}

// The limit is held against the clock: these may take less, and c10d's own connecting took nearly twice as long.
TEST(ConnectStore, TheReasonIsToldWithinTheLimit) {
  const milliseconds limit{1500};
  for (const auto& [host, reason] : {std::pair{"127.0.0.1", "Connection refused"}, {"no-such-host.invalid", "ame "}}) {
    const auto begin = std::chrono::steady_clock::now();
    const std::string text = failure_of([&, h = host] { connect_store(client_of(h, 1), limit); });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, limit + milliseconds(1000));
    EXPECT_THAT(text, AllOf(HasSubstr(reason), HasSubstr("(tried for 1.5 s)"),
                            HasSubstr(fmt::format("[operation connect to the store at {}:1]", host))));
  }
}

TEST(ConnectStore, WaitingIsSaid) {
  std::vector<std::string> said;
  failure_of(
      [&] { reach("127.0.0.1", 1, milliseconds(3000), [&](const std::string& text) { said.push_back(text); }); });
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr("waits for the store at 127.0.0.1:1: Connection refused (for 1 s more at most)"));
}

TEST(ConnectStore, AnotherRunsKeysAreOutOfTheWay) {
  const auto server = serve_local_store();
  const auto mine = connect_store(client_of("127.0.0.1", server->getPort(), "mine"), milliseconds(5000));
  const auto other = connect_store(client_of("127.0.0.1", server->getPort(), "other"), milliseconds(5000));
  Liveness::report_death(*other, 0, "written by a stranger");
  EXPECT_FALSE(Liveness::verdict(*mine));
  // Nor does one who knows c10d's keys but not the token.
  c10d::Store& bare = *server;
  bare.set("liveness/dead", std::string(R"({"rank": 0, "reason": "x"})"));
  bare.set("trireme/0/liveness/dead", std::string(R"({"rank": 0, "reason": "x"})"));
  EXPECT_FALSE(Liveness::verdict(*mine));
}

TEST(WatchedStore, AKnownDeathEndsEveryWait) {
  std::atomic<bool> dead{false};
  const auto store =
      watched(c10::make_intrusive<c10d::HashStore>(), [&] { return dead ? "rank 1: killed by signal 9" : ""; });
  store->setTimeout(std::chrono::hours(1));
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(50));
    dead = true;
  });
  const auto text = [](auto&& act) {
    try {
      act();
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(text([&] { store->get("absent"); }), "rank 1: killed by signal 9");
  EXPECT_EQ(text([&] { store->wait({"absent"}); }), "rank 1: killed by signal 9");
  EXPECT_EQ(text([&] { store->multiGet({"absent", "too"}); }), "rank 1: killed by signal 9");
  EXPECT_EQ(text([&] { store->clone()->get("absent"); }), "rank 1: killed by signal 9");
  // What is there is still given.
  store->set("there", std::string("x"));
  EXPECT_EQ(store->get_to_str("there"), "x");
  killer.join();
}

TEST(WatchedStore, AWaitEndsByItsTimeOut) {
  const auto store = watched(c10::make_intrusive<c10d::HashStore>(), [] { return ""; });
  store->setTimeout(milliseconds(50));
  try {
    store->get("absent");
    ADD_FAILURE() << "no error";
  } catch (const std::exception& error) {
    EXPECT_EQ(std::string(error.what()), "nobody came with absent in 50 ms");
  }
}

TEST(LocalRanks, TheRanksFindOutWhichOfThemShareAHost) {
  std::vector<LaunchEnv> found(3);
  testing::run_ranks(3, [&](int rank, const c10::intrusive_ptr<c10d::Store>& store) {
    found[static_cast<std::size_t>(rank)] = with_local_ranks({.rank = rank, .world = 3, .local_known = false}, store);
  });
  // All are threads of this process.
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(found[static_cast<std::size_t>(rank)].local_rank, rank);
    EXPECT_EQ(found[static_cast<std::size_t>(rank)].local_world, 3);
  }
}

TEST(ToldOnce, EachTextOnce) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_TRUE(first_to_tell(*store, "layout.pp = 3: a divisor of 4"));
  EXPECT_FALSE(first_to_tell(*store, "layout.pp = 3: a divisor of 4"));
  EXPECT_TRUE(first_to_tell(*store, "data.train: no such file"));
  wait_until_asked(*store, 3, std::chrono::hours(1));  // all three have
}

}  // namespace
}  // namespace trireme::comm
