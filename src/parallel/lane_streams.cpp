#include <chrono>
#include <map>

#include "parallel/lanes.h"

namespace trireme::parallel {
namespace {

class LaneStreams : public Lanes {
 public:
  LaneStreams(const plan::StagePlan& stage, SegmentRunner& runner, at::Device device, std::function<void()> on_failure)
      : stage_(stage), runner_(runner), on_failure_(std::move(on_failure)), device_(device), origin_(device) {
    for (const plan::Action& action : stage_.actions) {
      if (!streams_.contains(action.lane))
        streams_.emplace(action.lane,
                         action.lane == plan::Lane::compute ? Stream::current(device) : Stream::from_pool(device));
      begin_.emplace_back(device);
      end_.emplace_back(device);
    }
  }

  LaneFailure run(std::vector<plan::Span>& spans) override {
    const auto start = std::chrono::steady_clock::now();
    const auto now = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
    origin_.record(Stream::current(device_));
    // Lanes start after what the caller issued before.
    for (auto& [lane, stream] : streams_) origin_.block(stream);
    for (const plan::Action& action : stage_.actions) {
      const Stream& stream = streams_.at(action.lane);
      for (const int wait : action.waits) end_[wait].block(stream);
      spans[action.id].start_s = now();
      try {
        const Stream::Scope scope(stream);
        begin_[action.id].record(stream);
        runner_.run(action);
        end_[action.id].record(stream);
      } catch (...) {
        if (on_failure_) on_failure_();
        return {std::current_exception(), action.id};
      }
      spans[action.id].end_s = now();
    }
    for (auto& [lane, stream] : streams_) stream.synchronise();
    if (!device_.is_cpu())
      for (std::size_t i = 0; i < spans.size(); ++i)
        spans[i] = {begin_[i].seconds_since(origin_), end_[i].seconds_since(origin_)};
    return {};
  }

 private:
  const plan::StagePlan& stage_;
  SegmentRunner& runner_;
  std::function<void()> on_failure_;
  at::Device device_;
  Event origin_;
  std::map<plan::Lane, Stream> streams_;
  std::vector<Event> begin_, end_;
};

}  // namespace

std::unique_ptr<Lanes> make_lane_streams(const plan::StagePlan& stage, SegmentRunner& runner, at::Device device,
                                         std::function<void()> on_failure) {
  return std::make_unique<LaneStreams>(stage, runner, device, std::move(on_failure));
}

}  // namespace trireme::parallel
