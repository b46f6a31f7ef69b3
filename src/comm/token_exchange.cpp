#include "comm/token_exchange.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/errors.h"

namespace trireme::comm {
namespace {

// What travels: rows of tokens, or numbers of slots.
struct Payload {
  bool slots = false;
  at::Tensor like;  // dtype and device
  std::int64_t width = 1;

  std::int64_t total(const TokenRoute& r) const { return slots ? r.num_slots : r.num_rows; }
  const at::Tensor& of(const Picks& p) const { return slots ? p.slots : p.rows; }
  at::Tensor of(const at::Tensor& all, const Stretch& s) const {
    return slots ? all.narrow(0, s.first_slot, s.num_slots) : all.narrow(0, s.first_row, s.num_rows);
  }
};

at::Tensor as_bytes(const at::Tensor& values) {
  if (values.numel() == 0) return at::empty({0}, values.options().dtype(at::kByte));
  return values.reshape({-1}).view(at::kByte);
}

class DispatchContents final : public MessageContents {
 public:
  DispatchContents(const TokenRoute& route, Payload payload, const at::Tensor& own)
      : route_(route),
        payload_(std::move(payload)),
        all_(at::empty({payload_.total(route), payload_.width}, payload_.like.options())) {
    all_.narrow(0, 0, own.size(0)).copy_(own);
  }

  at::Tensor to_send(int phase, const OwnMessage& m) override {
    return as_bytes(all_.index_select(
        0, payload_.of(route_.sent[static_cast<std::size_t>(phase)][static_cast<std::size_t>(m.index)])));
  }
  // Straight to where it belongs.
  at::Tensor to_receive(int phase, const OwnMessage& m) override {
    return as_bytes(
        payload_.of(all_, route_.received[static_cast<std::size_t>(phase)][static_cast<std::size_t>(m.index)]));
  }
  void received(int, const OwnMessage&, const at::Tensor&) override {}
  void keep(int, const plan::Parcel&) override {}

  at::Tensor arrived() const { return all_.index_select(0, payload_.of(route_.arrived)); }

 private:
  const TokenRoute& route_;
  Payload payload_;
  at::Tensor all_;
};

class CombineContents final : public MessageContents {
 public:
  // rows: of this member's experts, or their slots' numbers (R x 1).
  CombineContents(const TokenRoute& route, Payload payload, const OwnPart& part, const at::Tensor& rows)
      : route_(route), payload_(std::move(payload)), part_(part) {
    const bool narrow = payload_.like.element_size() < 4;
    sums_ = at::zeros({payload_.total(route), payload_.width},
                      payload_.like.options().dtype(narrow ? at::kFloat : payload_.like.scalar_type()));
    sums_.index_add_(0, payload_.of(route.arrived), rows.to(sums_.scalar_type()));
  }

  at::Tensor to_send(int phase, const OwnMessage& m) override {
    std::vector<char> before(part_.phases.size(), 0);
    mark_before(phase, before);
    add_given(before);
    const Stretch& stretch = route_.received[there(phase)][static_cast<std::size_t>(m.index)];
    return as_bytes(payload_.of(sums_, stretch).to(payload_.like.scalar_type()));
  }
  at::Tensor to_receive(int phase, const OwnMessage& m) override {
    const std::int64_t n = payload_.of(sent(phase, m)).size(0);
    return at::empty({n * payload_.width * static_cast<std::int64_t>(payload_.like.element_size())},
                     payload_.like.options().dtype(at::kByte));
  }
  void received(int phase, const OwnMessage& m, const at::Tensor& bytes) override {
    if (bytes.numel() == 0) return;
    given_.push_back({phase, m.peer, &payload_.of(sent(phase, m)),
                      bytes.view(payload_.like.scalar_type()).reshape({-1, payload_.width})});
  }
  void keep(int, const plan::Parcel&) override {}

  // Of the member's own tokens, or of their slots.
  at::Tensor result() {
    add_given(std::vector<char>(part_.phases.size(), 1));
    const std::int64_t own = payload_.slots ? route_.num_tokens * route_.top_k : route_.num_tokens;
    return sums_.narrow(0, 0, own).to(payload_.like.scalar_type()).contiguous();
  }

 private:
  struct Given {
    int phase, from;
    const at::Tensor* where;
    at::Tensor values;
  };
  // The transpose has the phases in reverse, and as its sends what dispatch receives.
  std::size_t there(int phase) const { return route_.sent.size() - 1 - static_cast<std::size_t>(phase); }
  const Picks& sent(int phase, const OwnMessage& m) const {
    return route_.sent[there(phase)][static_cast<std::size_t>(m.index)];
  }
  void mark_before(int phase, std::vector<char>& marked) const {
    for (const int p : part_.phases[static_cast<std::size_t>(phase)].after) {
      marked[static_cast<std::size_t>(p)] = 1;
      mark_before(p, marked);
    }
  }
  // By member, whatever came first. Only what the plan's phases say is there: what has come early waits, so that the
  // order of sums never depends on time.
  void add_given(const std::vector<char>& phases) {
    std::stable_sort(given_.begin(), given_.end(), [](const Given& a, const Given& b) { return a.from < b.from; });
    std::vector<Given> later;
    for (Given& g : given_) {
      if (phases[static_cast<std::size_t>(g.phase)])
        sums_.index_add_(0, *g.where, g.values.to(sums_.scalar_type()));
      else
        later.push_back(std::move(g));
    }
    given_ = std::move(later);
  }

  const TokenRoute& route_;
  Payload payload_;
  const OwnPart& part_;
  at::Tensor sums_;
  std::vector<Given> given_;
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

TokenRoute TokenExchange::route(const at::Tensor& experts_TK, const std::string& operation, PhaseLog* log) {
  return make_route(group_, pattern_, there_, experts_TK.cpu().contiguous(), experts_per_member_, operation, log);
}

at::Tensor TokenExchange::dispatch(const TokenRoute& route, const at::Tensor& tokens_TD, const std::string& operation,
                                   PhaseLog* log) {
  TRIREME_CHECK(tokens_TD.dim() == 2 && tokens_TD.size(0) == route.num_tokens);
  DispatchContents contents(route, {.like = tokens_TD, .width = tokens_TD.size(1)}, tokens_TD);
  run_messages(group_, there_, contents, operation, log);
  return contents.arrived();
}

at::Tensor TokenExchange::combine(const TokenRoute& route, const at::Tensor& rows_RD, const std::string& operation,
                                  PhaseLog* log) {
  TRIREME_CHECK(rows_RD.dim() == 2 && rows_RD.size(0) == route.num_arrived);
  CombineContents contents(route, {.like = rows_RD, .width = rows_RD.size(1)}, back_, rows_RD);
  run_messages(group_, back_, contents, operation, log);
  return contents.result();
}

at::Tensor TokenExchange::dispatch_slots(const TokenRoute& route, const at::Tensor& values_TK,
                                         const std::string& operation, PhaseLog* log) {
  TRIREME_CHECK(values_TK.dim() == 2 && values_TK.size(0) == route.num_tokens && values_TK.size(1) == route.top_k);
  DispatchContents contents(route, {.slots = true, .like = values_TK}, values_TK.reshape({-1, 1}));
  run_messages(group_, there_, contents, operation, log);
  return contents.arrived().reshape({-1});
}

at::Tensor TokenExchange::combine_slots(const TokenRoute& route, const at::Tensor& values_R,
                                        const std::string& operation, PhaseLog* log) {
  TRIREME_CHECK(values_R.dim() == 1 && values_R.size(0) == route.num_arrived);
  CombineContents contents(route, {.slots = true, .like = values_R}, back_, values_R.reshape({-1, 1}));
  run_messages(group_, back_, contents, operation, log);
  return contents.result().reshape({route.num_tokens, route.top_k});
}

}  // namespace trireme::comm
