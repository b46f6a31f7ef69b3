#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "comm/connect_store.h"

namespace trireme::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class WatchedStore final : public c10d::PrefixStore {
 public:
  WatchedStore(c10::intrusive_ptr<c10d::Store> store, InVain in_vain)
      : PrefixStore("run", std::move(store)), in_vain_(std::move(in_vain)) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<WatchedStore>(store_->clone(), in_vain_);
  }

  std::vector<std::uint8_t> get(const std::string& key) override {
    wait({key}, getTimeout());
    return PrefixStore::get(key);
  }
  std::vector<std::vector<std::uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    wait(keys, getTimeout());
    return PrefixStore::multiGet(keys);
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, getTimeout()); }

  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    const auto begin = Clock::now();
    milliseconds pause{1};
    while (!check(keys)) {
      if (const std::string why = in_vain_(); !why.empty()) throw std::runtime_error(why);
      if (timeout != kNoTimeout && Clock::now() - begin > timeout)
        throw std::runtime_error(fmt::format("nobody came with {} in {} ms", fmt::join(keys, ", "), timeout.count()));
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, milliseconds(40));
    }
  }

 private:
  InVain in_vain_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> watched(const c10::intrusive_ptr<c10d::Store>& store, InVain in_vain) {
  return c10::make_intrusive<WatchedStore>(store, std::move(in_vain));
}

}  // namespace trireme::comm
