#include "comm/token_exchange.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/errors.h"

namespace trireme::comm {
namespace {

// Rows of a token, or numbers of its slots. A slot's numbers lie in its table's rows, K beside one another.
struct Payload {
  bool per_slot = false;
  at::Tensor like;         // dtype and device
  std::int64_t width = 1;  // of a token's row
  std::int64_t row_values(std::int64_t k) const { return per_slot ? k : width; }
};

bool single(const Picks& picks) {
  return picks.slots.defined();
}

at::Tensor as_bytes(const at::Tensor& values, const at::Tensor& like) {
  if (values.numel() == 0) return at::empty({0}, like.options().dtype(at::kByte));
  return values.contiguous().reshape({-1}).view(at::kByte);
}

class DispatchContents final : public MessageContents {
 public:
  DispatchContents(const TokenRoute& route, Payload payload, const at::Tensor& own)
      : route_(route), payload_(std::move(payload)), data_(route.tables.size()) {
    data_[0] = own;
  }

  at::Tensor to_send(int phase, const OwnMessage& m) override {
    std::vector<at::Tensor> parts{at::empty({0}, payload_.like.options())};
    for (const Picks& picks : route_.sent[static_cast<std::size_t>(phase)][static_cast<std::size_t>(m.index)])
      parts.push_back(select(picks).reshape({-1}));
    return as_bytes(parts.size() == 2 ? parts.back() : at::cat(parts), payload_.like);
  }

  at::Tensor to_receive(int phase, const OwnMessage& m) override {
    std::int64_t values = 0;
    for (const int table : tables(phase, m)) values += size_of(table);
    return at::empty({values * static_cast<std::int64_t>(payload_.like.element_size())},
                     payload_.like.options().dtype(at::kByte));
  }

  void received(int phase, const OwnMessage& m, const at::Tensor& bytes) override {
    const at::Tensor values =
        bytes.numel() == 0 ? at::empty({0}, payload_.like.options()) : bytes.view(payload_.like.scalar_type());
    std::int64_t offset = 0;
    for (const int table : tables(phase, m)) {
      const at::Tensor& experts_NK = route_.tables[static_cast<std::size_t>(table)].experts_NK;
      data_[static_cast<std::size_t>(table)] =
          values.narrow(0, offset, size_of(table))
              .reshape({experts_NK.size(0), payload_.row_values(experts_NK.size(1))});
      offset += size_of(table);
    }
  }

  void keep(int, const plan::Parcel&) override {}

  at::Tensor arrived() const {
    at::Tensor out = at::empty({route_.num_arrived, payload_.per_slot ? 1 : payload_.width}, payload_.like.options());
    for (std::size_t i = 0; i < route_.arrived.size(); ++i)
      out.index_copy_(0, route_.positions[i], select(route_.arrived[i]));
    return out;
  }

 private:
  const std::vector<int>& tables(int phase, const OwnMessage& m) const {
    return route_.received[static_cast<std::size_t>(phase)][static_cast<std::size_t>(m.index)];
  }
  std::int64_t size_of(int table) const {
    const at::Tensor& experts_NK = route_.tables[static_cast<std::size_t>(table)].experts_NK;
    return experts_NK.size(0) * payload_.row_values(experts_NK.size(1));
  }
  at::Tensor select(const Picks& picks) const {
    const at::Tensor& data = data_[static_cast<std::size_t>(picks.table)];
    if (payload_.per_slot && single(picks)) return data.reshape({-1, 1}).index_select(0, picks.slots);
    return data.index_select(0, picks.rows);
  }

  const TokenRoute& route_;
  Payload payload_;
  std::vector<at::Tensor> data_;  // by table
};

class CombineContents final : public MessageContents {
 public:
  // rows: of this member's experts, or their slots' numbers (R x 1).
  CombineContents(const TokenRoute& route, Payload payload, const at::Tensor& rows, int me)
      : route_(route), payload_(std::move(payload)), me_(me), given_(route.tables.size()) {
    for (std::size_t i = 0; i < route.arrived.size(); ++i)
      given_[static_cast<std::size_t>(route.arrived[i].table)].push_back(
          {me, &route.arrived[i], rows.index_select(0, route.positions[i])});
  }

  at::Tensor to_send(int phase, const OwnMessage& m) override {
    std::vector<at::Tensor> parts{at::empty({0}, payload_.like.options())};
    for (const int table : route_.received[there(phase)][static_cast<std::size_t>(m.index)])
      parts.push_back(sum(table).reshape({-1}));
    return as_bytes(parts.size() == 2 ? parts.back() : at::cat(parts), payload_.like);
  }

  at::Tensor to_receive(int phase, const OwnMessage& m) override {
    std::int64_t values = 0;
    for (const Picks& picks : sent(phase, m)) values += picks.rows.size(0) * values_of(picks);
    return at::empty({values * static_cast<std::int64_t>(payload_.like.element_size())},
                     payload_.like.options().dtype(at::kByte));
  }

  void received(int phase, const OwnMessage& m, const at::Tensor& bytes) override {
    if (bytes.numel() == 0) return;
    const at::Tensor values = bytes.view(payload_.like.scalar_type());
    std::int64_t offset = 0;
    for (const Picks& picks : sent(phase, m)) {
      const std::int64_t n = picks.rows.size(0), width = values_of(picks);
      given_[static_cast<std::size_t>(picks.table)].push_back(
          {m.peer, &picks, values.narrow(0, offset, n * width).reshape({n, width})});
      offset += n * width;
    }
  }

  void keep(int, const plan::Parcel&) override {}

  at::Tensor sum(int table) {
    auto& given = given_[static_cast<std::size_t>(table)];
    std::stable_sort(given.begin(), given.end(), [](const Given& a, const Given& b) { return a.from < b.from; });
    const at::Tensor& experts_NK = route_.tables[static_cast<std::size_t>(table)].experts_NK;
    const bool narrow = payload_.like.element_size() < 4;
    at::Tensor total = at::zeros({experts_NK.size(0), payload_.row_values(experts_NK.size(1))},
                                 payload_.like.options().dtype(narrow ? at::kFloat : payload_.like.scalar_type()));
    for (const Given& g : given) {
      const at::Tensor values = g.values.to(total.scalar_type());
      if (payload_.per_slot && single(*g.picks))
        total.view({-1, 1}).index_add_(0, g.picks->slots, values);
      else
        total.index_add_(0, g.picks->rows, values);
    }
    given.clear();
    return total.to(payload_.like.scalar_type());
  }

 private:
  struct Given {
    int from;
    const Picks* picks;
    at::Tensor values;
  };
  // The transpose has the phases in reverse, and as its sends what dispatch receives.
  std::size_t there(int phase) const { return route_.sent.size() - 1 - static_cast<std::size_t>(phase); }
  const std::vector<Picks>& sent(int phase, const OwnMessage& m) const {
    return route_.sent[there(phase)][static_cast<std::size_t>(m.index)];
  }
  std::int64_t values_of(const Picks& picks) const {
    if (!payload_.per_slot) return payload_.width;
    return single(picks) ? 1 : route_.tables[static_cast<std::size_t>(picks.table)].experts_NK.size(1);
  }

  const TokenRoute& route_;
  Payload payload_;
  int me_;
  std::vector<std::vector<Given>> given_;  // by table
};

}  // namespace

TokenExchange::TokenExchange(Group& group, plan::Pattern pattern, int num_experts)
    : group_(group),
      pattern_(std::move(pattern)),
      there_(own_part(pattern_, group.rank())),
      back_(own_part(plan::transpose(pattern_), group.rank())),
      experts_per_member_(num_experts / group.size()) {
  TRIREME_CHECK(num_experts % group.size() == 0 && pattern_.flow == plan::Flow::dispatch);
}

TokenExchange::~TokenExchange() = default;

TokenRoute TokenExchange::route(const at::Tensor& experts_TK, const std::string& operation) {
  return make_route(group_, pattern_, there_, experts_TK.cpu().contiguous(), experts_per_member_, operation);
}

at::Tensor TokenExchange::dispatch(const TokenRoute& route, const at::Tensor& tokens_TD, const std::string& operation) {
  TRIREME_CHECK(tokens_TD.dim() == 2 && tokens_TD.size(0) == route.num_tokens);
  DispatchContents contents(route, {.like = tokens_TD, .width = tokens_TD.size(1)}, tokens_TD);
  run_messages(group_, there_, contents, operation);
  return contents.arrived();
}

at::Tensor TokenExchange::combine(const TokenRoute& route, const at::Tensor& rows_RD, const std::string& operation) {
  TRIREME_CHECK(rows_RD.dim() == 2 && rows_RD.size(0) == route.num_arrived);
  CombineContents contents(route, {.like = rows_RD, .width = rows_RD.size(1)}, rows_RD, group_.rank());
  run_messages(group_, back_, contents, operation);
  return contents.sum(0);
}

at::Tensor TokenExchange::dispatch_slots(const TokenRoute& route, const at::Tensor& values_TK,
                                         const std::string& operation) {
  TRIREME_CHECK(values_TK.dim() == 2 && values_TK.size(0) == route.num_tokens && values_TK.size(1) == route.top_k);
  DispatchContents contents(route, {.per_slot = true, .like = values_TK}, values_TK.contiguous());
  run_messages(group_, there_, contents, operation);
  return contents.arrived().reshape({-1});
}

at::Tensor TokenExchange::combine_slots(const TokenRoute& route, const at::Tensor& values_R,
                                        const std::string& operation) {
  TRIREME_CHECK(values_R.dim() == 1 && values_R.size(0) == route.num_arrived);
  CombineContents contents(route, {.per_slot = true, .like = values_R}, values_R.reshape({-1, 1}), group_.rank());
  run_messages(group_, back_, contents, operation);
  return contents.sum(0);
}

}  // namespace trireme::comm
