#include "comm/token_route.h"

#include <algorithm>
#include <tuple>

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
    std::vector<std::int64_t> rows, slots;
    std::vector<int> chosen;
    for (const Parcel& parcel : message.parcels)
      for (int s = 0; s < parcel.sources.count; ++s)
        take(table_of(parcel.sources[s], parcel.destinations), parcel, rows, slots, chosen);
    route_.sent[static_cast<std::size_t>(phase)][static_cast<std::size_t>(message.index)] = picks(rows, slots);
    const auto size = static_cast<std::int64_t>(chosen.size() * sizeof(int));
    return at::from_blob(chosen.data(), {size}, at::kByte).clone().to(group_.device);
  }

  at::Tensor to_receive(int phase, const OwnMessage& message) override {
    std::int64_t values = 0;
    for (const Parcel& parcel : message.parcels)
      for (int s = 0; s < parcel.sources.count; ++s) values += rows(phase, parcel, s) * width(parcel);
    return at::empty({values * 4}, at::TensorOptions(at::kByte).device(group_.device));
  }

  void received(int phase, const OwnMessage& message, const at::Tensor& bytes) override {
    const at::Tensor values = bytes.cpu().view(at::kInt).to(at::kLong);
    Stretch stretch{.first_row = route_.num_rows, .first_slot = route_.num_slots};
    std::int64_t offset = 0;
    for (const Parcel& parcel : message.parcels)
      for (int s = 0; s < parcel.sources.count; ++s) {
        const std::int64_t n = rows(phase, parcel, s), k = width(parcel);
        add({parcel.sources[s], parcel.destinations, values.narrow(0, offset, n * k).reshape({n, k})});
        offset += n * k;
      }
    stretch.num_rows = route_.num_rows - stretch.first_row;
    stretch.num_slots = route_.num_slots - stretch.first_slot;
    route_.received[static_cast<std::size_t>(phase)][static_cast<std::size_t>(message.index)] = stretch;
  }

  void keep(int, const Parcel&) override {}

  void add(TokenTable table) {
    table.first_row = route_.num_rows;
    table.first_slot = route_.num_slots;
    route_.num_rows += table.experts_NK.size(0);
    route_.num_slots += table.experts_NK.numel();
    route_.tables.push_back(std::move(table));
  }

  // What is for this member's experts.
  void arrive() {
    struct Row {
      int source;
      std::int64_t expert, row, slot;
    };
    std::vector<Row> all;
    const std::int64_t first = std::int64_t{per_member_} * group_.rank();
    for (int source = 0; source < group_.size(); ++source) {
      const TokenTable& table = table_of(source, {.first = group_.rank()});
      const std::int64_t n = table.experts_NK.numel(), k = table.experts_NK.size(1);
      const std::int64_t* e = table.experts_NK.const_data_ptr<std::int64_t>();
      for (std::int64_t i = 0; i < n; ++i)
        if (e[i] >= first && e[i] < first + per_member_)
          all.push_back({source, e[i] - first, table.first_row + i / k, table.first_slot + i});
    }
    std::sort(all.begin(), all.end(), [](const Row& a, const Row& b) {
      return std::tie(a.source, a.expert, a.row, a.slot) < std::tie(b.source, b.expert, b.row, b.slot);
    });
    route_.num_arrived = static_cast<std::int64_t>(all.size());
    route_.counts_PE.assign(static_cast<std::size_t>(group_.size() * per_member_), 0);
    std::vector<std::int64_t> rows, slots;
    for (const Row& row : all) {
      ++route_.counts_PE[static_cast<std::size_t>(row.source * per_member_ + row.expert)];
      rows.push_back(row.row);
      slots.push_back(row.slot);
    }
    route_.arrived = picks(rows, slots);
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
  const TokenTable& table_of(int source, const Members& destinations) const {
    const TokenTable* best = nullptr;
    for (const TokenTable& t : route_.tables) {
      if (t.source != source) continue;
      bool covers = true;
      for (int d = 0; d < destinations.count && covers; ++d) covers = t.destinations.contains(destinations[d]);
      if (covers && (best == nullptr || t.destinations.count <= best->destinations.count)) best = &t;
    }
    TRIREME_CHECK(best != nullptr, "{}: no tokens of member {} here", part_.pattern, source);
    return *best;
  }

  void take(const TokenTable& table, const Parcel& parcel, std::vector<std::int64_t>& rows,
            std::vector<std::int64_t>& slots, std::vector<int>& experts) const {
    const std::int64_t n = table.experts_NK.size(0), k = table.experts_NK.size(1);
    const std::int64_t* e = table.experts_NK.const_data_ptr<std::int64_t>();
    const auto wanted = [&](std::int64_t i) {
      return e[i] >= 0 && parcel.destinations.contains(static_cast<int>(e[i] / per_member_));
    };
    const auto add_slot = [&](std::int64_t i) {
      slots.push_back(table.first_slot + i);
      experts.push_back(static_cast<int>(e[i]));
    };
    for (std::int64_t row = 0; row < n; ++row) {
      bool any = parcel.rows == Rows::all;
      for (std::int64_t i = row * k; i < (row + 1) * k; ++i) {
        if (parcel.rows == Rows::each && wanted(i)) {
          rows.push_back(table.first_row + row);
          add_slot(i);
        }
        any = any || wanted(i);
      }
      if (parcel.rows == Rows::each || !any) continue;
      rows.push_back(table.first_row + row);
      for (std::int64_t i = row * k; i < (row + 1) * k; ++i) add_slot(i);
    }
  }

  Picks picks(const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& slots) const {
    return {numbers(rows).to(group_.device), numbers(slots).to(group_.device)};
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
                      int experts_per_member, const std::string& operation, PhaseLog* log) {
  TRIREME_CHECK(experts_TK.is_cpu() && experts_TK.scalar_type() == at::kLong && experts_TK.dim() == 2 &&
                experts_TK.is_contiguous() && experts_per_member > 0);
  TokenRoute route{.num_tokens = experts_TK.size(0), .top_k = experts_TK.size(1)};
  RowBuffers buffers;
  RecordContents records(group.size(), group.rank(), static_cast<int>(whole.phases.size()),
                         own_records(whole, group.rank(), experts_TK, experts_per_member), group.device, buffers);
  if (log != nullptr) log->part = "counts";
  run_messages(group, part, records, operation + " counts", log);
  RouteContents contents(group, records, route, part, experts_per_member);
  contents.add({group.rank(), {.first = 0, .count = group.size()}, experts_TK});
  if (log != nullptr) log->part = "experts";
  run_messages(group, part, contents, operation + " experts", log);
  contents.arrive();
  return route;
}

}  // namespace trireme::comm
