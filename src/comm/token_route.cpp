#include "comm/token_route.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <ATen/ATen.h>

#include "base/errors.h"
#include "comm/block_contents.h"

namespace trireme::comm {
namespace {

using plan::Block;
using plan::Members;
using plan::Parcel;
using plan::Rows;

at::Tensor numbers(const std::vector<std::int64_t>& values) {
  return at::tensor(at::ArrayRef<std::int64_t>(values), at::kLong);
}

// Rows (and slots) of a table that a parcel takes, ascending.
struct Taken {
  std::vector<std::int64_t> rows, slots;
};

class RouteContents final : public MessageContents {
 public:
  RouteContents(Group& group, const RecordContents& records, TokenRoute& route, const OwnPart& part,
                int experts_per_member)
      : group_(group), records_(records), route_(route), part_(part), per_member_(experts_per_member) {
    for (const OwnPhase& phase : part.phases) {
      route_.sent.emplace_back(phase.sends.size());
      route_.received.emplace_back(phase.receives.size());
    }
  }

  at::Tensor to_send(int phase, const OwnMessage& message) override {
    std::vector<at::Tensor> parts{at::empty({0}, at::kInt)};
    auto& sent = route_.sent[static_cast<std::size_t>(phase)][static_cast<std::size_t>(message.index)];
    for (const Parcel& parcel : message.parcels)
      for (int s = 0; s < parcel.sources.count; ++s) {
        const int table = table_of(parcel.sources[s], parcel.destinations);
        Picks picks = take(table, parcel.destinations, parcel.rows);
        const at::Tensor& experts_NK = route_.tables[static_cast<std::size_t>(table)].experts_NK;
        const at::Tensor chosen = picks.slots.defined() ? experts_NK.reshape({-1}).index_select(0, picks.slots)
                                                        : experts_NK.index_select(0, picks.rows).reshape({-1});
        parts.push_back(chosen.to(at::kInt));
        picks.rows = picks.rows.to(group_.device);
        if (picks.slots.defined()) picks.slots = picks.slots.to(group_.device);
        sent.push_back(std::move(picks));
      }
    return at::cat(parts).view(at::kByte).to(group_.device);
  }

  at::Tensor to_receive(int phase, const OwnMessage& message) override {
    std::int64_t values = 0;
    for (const Parcel& parcel : message.parcels)
      for (int s = 0; s < parcel.sources.count; ++s) values += rows(phase, parcel, s) * width(parcel);
    return at::empty({values * 4}, at::TensorOptions(at::kByte).device(group_.device));
  }

  void received(int phase, const OwnMessage& message, const at::Tensor& bytes) override {
    const at::Tensor values = bytes.cpu().view(at::kInt).to(at::kLong);
    std::int64_t offset = 0;
    for (const Parcel& parcel : message.parcels)
      for (int s = 0; s < parcel.sources.count; ++s) {
        const std::int64_t n = rows(phase, parcel, s), k = width(parcel);
        route_.received[static_cast<std::size_t>(phase)][static_cast<std::size_t>(message.index)].push_back(
            static_cast<int>(route_.tables.size()));
        route_.tables.push_back(
            {parcel.sources[s], parcel.destinations, values.narrow(0, offset, n * k).reshape({n, k})});
        offset += n * k;
      }
  }

  void keep(int, const Parcel&) override {}

  // What is for this member's experts.
  void arrive() {
    struct Row {
      int source;
      std::int64_t expert, row, slot;
      int table;
    };
    std::vector<Row> all;
    const std::int64_t first = std::int64_t{per_member_} * group_.rank();
    for (int source = 0; source < group_.size(); ++source) {
      const int table = table_of(source, {.first = group_.rank()});
      const at::Tensor& experts_NK = route_.tables[static_cast<std::size_t>(table)].experts_NK;
      const std::int64_t n = experts_NK.size(0), k = experts_NK.size(1);
      const std::int64_t* e = experts_NK.const_data_ptr<std::int64_t>();
      for (std::int64_t i = 0; i < n * k; ++i)
        if (e[i] >= first && e[i] < first + per_member_) all.push_back({source, e[i] - first, i / k, i, table});
    }
    std::stable_sort(all.begin(), all.end(), [](const Row& a, const Row& b) {
      return std::tie(a.source, a.expert, a.row, a.slot) < std::tie(b.source, b.expert, b.row, b.slot);
    });
    route_.num_arrived = static_cast<std::int64_t>(all.size());
    route_.counts_PE.assign(static_cast<std::size_t>(group_.size() * per_member_), 0);
    struct Group3 {
      std::vector<std::int64_t> rows, slots, positions;
    };
    std::map<int, Group3> by_table;
    for (std::size_t i = 0; i < all.size(); ++i) {
      ++route_.counts_PE[static_cast<std::size_t>(all[i].source * per_member_ + all[i].expert)];
      Group3& g = by_table[all[i].table];
      g.rows.push_back(all[i].row);
      g.slots.push_back(all[i].slot);
      g.positions.push_back(static_cast<std::int64_t>(i));
    }
    for (const auto& [table, g] : by_table) {
      route_.arrived.push_back({table, numbers(g.rows).to(group_.device), numbers(g.slots).to(group_.device)});
      route_.positions.push_back(numbers(g.positions).to(group_.device));
    }
  }

 private:
  std::int64_t width(const Parcel& parcel) const { return parcel.rows == Rows::each ? 1 : route_.top_k; }

  std::int64_t rows(int phase, const Parcel& parcel, int s) const {
    std::int64_t n = 0;
    for (int d = 0; d < parcel.destinations.count; ++d) {
      n += records_.at({parcel.sources[s], parcel.destinations[d]})[static_cast<std::size_t>(phase)];
      if (parcel.rows != Rows::each) break;  // the parcel's number is in each of its blocks
    }
    return n;
  }

  // The smallest table of the source that holds its rows for all of these.
  int table_of(int source, const Members& destinations) const {
    int best = -1;
    for (std::size_t i = 0; i < route_.tables.size(); ++i) {
      const TokenTable& t = route_.tables[i];
      if (t.source != source) continue;
      bool covers = true;
      for (int d = 0; d < destinations.count && covers; ++d) covers = t.destinations.contains(destinations[d]);
      if (covers &&
          (best < 0 || t.destinations.count <= route_.tables[static_cast<std::size_t>(best)].destinations.count))
        best = static_cast<int>(i);
    }
    TRIREME_CHECK(best >= 0, "{}: no tokens of member {} here", part_.pattern, source);
    return best;
  }

  Picks take(int table, const Members& destinations, Rows kind) const {
    const at::Tensor& experts_NK = route_.tables[static_cast<std::size_t>(table)].experts_NK;
    const std::int64_t n = experts_NK.size(0), k = experts_NK.size(1);
    if (kind == Rows::all) return {table, at::arange(n, at::kLong), {}};
    const std::int64_t* e = experts_NK.const_data_ptr<std::int64_t>();
    std::vector<std::int64_t> rows, slots;
    for (std::int64_t row = 0; row < n; ++row)
      for (std::int64_t slot = row * k; slot < (row + 1) * k; ++slot) {
        if (e[slot] < 0 || !destinations.contains(static_cast<int>(e[slot] / per_member_))) continue;
        rows.push_back(row);
        slots.push_back(slot);
        if (kind == Rows::once) break;
      }
    return {table, numbers(rows), kind == Rows::each ? numbers(slots) : at::Tensor()};
  }

  Group& group_;
  const RecordContents& records_;
  TokenRoute& route_;
  const OwnPart& part_;
  int per_member_;
};

// By destination, for every phase: rows of the parcel in which this member's block travels there.
std::vector<std::int64_t> own_records(const plan::Pattern& whole, int me, const at::Tensor& experts_TK,
                                      int per_member) {
  const auto phases = static_cast<std::int64_t>(whole.phases.size());
  std::vector<std::int64_t> out(static_cast<std::size_t>(whole.size * phases), 0);
  const std::int64_t tokens = experts_TK.size(0), k = experts_TK.size(1);
  const std::int64_t* e = experts_TK.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> each(static_cast<std::size_t>(whole.size), 0);
  for (std::int64_t i = 0; i < tokens * k; ++i) {
    if (e[i] < 0) continue;
    TRIREME_CHECK(e[i] / per_member < whole.size, "expert {} of {}", e[i], whole.size * per_member);
    ++each[static_cast<std::size_t>(e[i] / per_member)];
  }
  for (std::int64_t phase = 0; phase < phases; ++phase)
    for (const plan::Transfer& t : whole.phases[static_cast<std::size_t>(phase)].transfers)
      for (const Parcel& parcel : t.parcels) {
        if (!parcel.sources.contains(me)) continue;
        std::int64_t n = tokens;
        if (parcel.rows == Rows::once) {
          n = 0;
          for (std::int64_t row = 0; row < tokens; ++row)
            n += std::any_of(e + row * k, e + (row + 1) * k, [&](std::int64_t expert) {
              return expert >= 0 && parcel.destinations.contains(static_cast<int>(expert / per_member));
            });
        }
        for (int d = 0; d < parcel.destinations.count; ++d) {
          const int to = parcel.destinations[d];
          out[static_cast<std::size_t>(to * phases + phase)] =
              parcel.rows == Rows::each ? each[static_cast<std::size_t>(to)] : n;
        }
      }
  return out;
}

}  // namespace

TokenRoute make_route(Group& group, const plan::Pattern& whole, const OwnPart& part, const at::Tensor& experts_TK,
                      int experts_per_member, const std::string& operation) {
  TRIREME_CHECK(experts_TK.is_cpu() && experts_TK.scalar_type() == at::kLong && experts_TK.dim() == 2 &&
                experts_TK.is_contiguous() && experts_per_member > 0);
  TokenRoute route{.num_tokens = experts_TK.size(0), .top_k = experts_TK.size(1)};
  route.tables.push_back({group.rank(), {.first = 0, .count = group.size()}, experts_TK});
  RowBuffers buffers;
  RecordContents records(group.size(), group.rank(), static_cast<int>(whole.phases.size()),
                         own_records(whole, group.rank(), experts_TK, experts_per_member), group.device, buffers);
  run_messages(group, part, records, operation + " counts");
  RouteContents contents(group, records, route, part, experts_per_member);
  run_messages(group, part, contents, operation + " experts");
  contents.arrive();
  return route;
}

}  // namespace trireme::comm
