#include "comm/link_probe.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <ATen/ATen.h>

#include "base/errors.h"

namespace trireme::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int min_samples = 3;
constexpr int most_pairs = 15;

void finish_on_device(const Group& group) {
  if (!group.device.is_cpu()) c10::impl::VirtualGuardImpl(group.device.type()).synchronizeDevice(group.device.index());
}

double seconds_of(const Group& group, const std::function<void()>& once) {
  const auto begin = Clock::now();
  once();
  finish_on_device(group);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int affordable(double once_s, double budget_s, int max_samples) {
  const double n = budget_s / std::max(once_s, 1e-9);
  return static_cast<int>(std::clamp(n, double{min_samples}, double(std::max(max_samples, min_samples))));
}

at::Tensor floats(const Group& group, double bytes) {
  const auto n = static_cast<std::int64_t>(std::ceil(bytes / 4));
  return at::zeros({std::max<std::int64_t>(n, 1)}, at::TensorOptions(at::kFloat).device(group.device));
}

// Rounds trips between two members. The first of them decides how many and tells the other.
std::vector<double> ping_pong(Group& group, int first, int second, double bytes, double budget_s, int max_samples) {
  const bool leads = group.rank() == first;
  const int peer = leads ? second : first;
  at::Tensor x = floats(group, bytes);
  const auto round_trip = [&] {
    if (leads) send(group, x, peer, 0, "probe");
    receive(group, x, peer, 0, "probe");
    if (!leads) send(group, x, peer, 0, "probe");
  };
  round_trip();  // the first one wakes threads and grows buffers
  const double once_s = seconds_of(group, round_trip);
  at::Tensor n =
      at::full({1}, affordable(once_s, budget_s, max_samples), at::TensorOptions(at::kLong).device(group.device));
  if (leads) send(group, n, peer, 0, "probe");
  if (!leads) receive(group, n, peer, 0, "probe");
  std::vector<double> samples;
  for (std::int64_t i = n.item<std::int64_t>(); i > 0; --i) samples.push_back(seconds_of(group, round_trip) / 2);
  return samples;
}

// Works on more memory than a core's caches hold for so many seconds.
void stream_through_memory(double seconds) {
  static std::vector<float> values(2 << 20, 1.0f);
  const auto begin = Clock::now();
  std::size_t at = 0;
  while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds) {
    for (std::size_t i = 0; i < 4096; ++i) values[at + i] = values[at + i] * 0.5f + 1.0f;
    at = (at + 4096) % values.size();
  }
}

// A collective, from a common start until its last member is done.
std::vector<double> collective(Group& group, const std::function<void()>& once, double budget_s, int max_samples,
                               double compute_s) {
  const auto on_group = at::TensorOptions(at::kDouble).device(group.device);
  once();
  at::Tensor once_s = at::full({1}, seconds_of(group, once), on_group);
  all_reduce(group, once_s, ReduceOp::max, "probe");
  const int n = affordable(once_s.item<double>() + compute_s, budget_s, max_samples);
  std::vector<double> samples;
  for (int i = 0; i < n; ++i) {
    barrier(group, "probe");
    if (compute_s > 0) stream_through_memory(compute_s);
    samples.push_back(seconds_of(group, once));
  }
  at::Tensor slowest = at::tensor(samples).to(at::kDouble).to(group.device);
  all_reduce(group, slowest, ReduceOp::max, "probe");
  slowest = slowest.cpu();
  return {slowest.const_data_ptr<double>(), slowest.const_data_ptr<double>() + n};
}

std::vector<std::pair<int, int>> default_pairs(int size) {
  std::vector<std::pair<int, int>> pairs;
  for (int a = 0; a < (size <= 4 ? size : 1); ++a)
    for (int b = a + 1; b < size && static_cast<int>(pairs.size()) < most_pairs; ++b) pairs.emplace_back(a, b);
  return pairs;
}

LinkCurve message_curve(Group& group, std::pair<int, int> pair, const std::vector<double>& sizes, double budget_s,
                        int max_samples) {
  const auto [first, second] = pair;
  TRIREME_CHECK(first != second && first >= 0 && second >= 0 && std::max(first, second) < group.size());
  LinkCurve curve{
      .members = {group.members()[static_cast<std::size_t>(first)], group.members()[static_cast<std::size_t>(second)]}};
  at::Tensor figures = at::zeros({static_cast<std::int64_t>(sizes.size()), 4}, at::kDouble);
  if (group.rank() == first || group.rank() == second) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto p = summarise(sizes[i], ping_pong(group, first, second, sizes[i], budget_s, max_samples));
      figures[static_cast<std::int64_t>(i)].copy_(
          at::tensor({p.median_s, p.p99_s, p.max_s, double(p.samples)}, at::kDouble));
    }
  }
  figures = figures.to(group.device);
  broadcast(group, figures, first, "probe");  // and the others wait here, silent, until the pair is through
  figures = figures.cpu();
  const auto f = figures.accessor<double, 2>();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    curve.points.push_back({sizes[i], f[row][0], f[row][1], f[row][2], static_cast<int>(f[row][3])});
  }
  return curve;
}

}  // namespace

platform::Link link_of(std::string level, const std::vector<LinkPoint>& messages) {
  TRIREME_CHECK(!messages.empty());
  platform::Link link{
      .level = std::move(level), .source = platform::Source::measured, .latency_s = messages.front().median_s};
  for (std::size_t i = 1; i < messages.size(); ++i) {
    const LinkPoint& m = messages[i];
    link.bytes.push_back(m.bytes);
    link.bytes_per_s.push_back(m.bytes / std::max(m.median_s - link.latency_s, m.median_s / 10));
    link.p99_s.push_back(m.p99_s);
    link.max_s.push_back(m.max_s);
  }
  return link;
}

LinkPoint summarise(double bytes, std::vector<double> samples_s) {
  TRIREME_CHECK(!samples_s.empty());
  std::sort(samples_s.begin(), samples_s.end());
  const std::size_t n = samples_s.size();
  const double median = (samples_s[(n - 1) / 2] + samples_s[n / 2]) / 2;
  const auto rank = static_cast<std::size_t>(std::ceil(0.99 * static_cast<double>(n)));
  return {bytes, median, samples_s[std::max<std::size_t>(rank, 1) - 1], samples_s.back(), static_cast<int>(n)};
}

std::vector<LinkCurve> probe_links(Group& group, const LinkProbeOptions& options) {
  std::vector<LinkCurve> curves;
  if (group.size() == 1) return curves;
  auto sizes = options.bytes;
  std::sort(sizes.begin(), sizes.end());
  const auto pairs = options.pairs.empty() ? default_pairs(group.size()) : options.pairs;
  const double budget_s = options.budget_s / static_cast<double>(sizes.size() * (pairs.size() + 2));

  for (const auto& pair : pairs) curves.push_back(message_curve(group, pair, sizes, budget_s, options.max_samples));

  LinkCurve reduce{.operation = LinkOperation::all_reduce, .members = group.members()};
  LinkCurve exchange{.operation = LinkOperation::all_to_all, .members = group.members()};
  for (const double bytes : sizes) {
    at::Tensor x = floats(group, bytes);
    reduce.points.push_back(summarise(
        bytes, collective(
                   group, [&] { all_reduce(group, x, ReduceOp::sum, "probe"); }, budget_s, options.max_samples, options.compute_s)));

    const at::Tensor part = floats(group, bytes / group.size());
    const at::Tensor rows = part.repeat({group.size()});
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()), part.numel());
    exchange.points.push_back(summarise(
        static_cast<double>(rows.numel()) * 4,
        collective(
            group, [&] { all_to_all_rows(group, rows, counts, counts, "probe"); }, budget_s, options.max_samples,
            options.compute_s)));
  }
  curves.push_back(std::move(reduce));
  curves.push_back(std::move(exchange));
  return curves;
}

}  // namespace trireme::comm
