#include <algorithm>

#include "base/errors.h"
#include "model/operators.h"
#include "model/segment_subject.h"

// A segment's part of the tape of its layer or end.
namespace trireme::model {
namespace {

constexpr int none = Tape::none;

class SegmentReading {
 public:
  SegmentReading(const Tape& tape, Segment segment) : tape_(tape), segment_(segment), kept_(saved_tensors(tape)) {
    std::array<bool, Tape::max_tensors> made{}, elsewhere{};
    for (int i = 0; i < tape.num_operators; ++i) {
      const Tape::Operator& op = tape.operators[i];
      const bool own = is_own(op);
      for (const int s : op.out)
        if (s != none) made[s] = own;
      for (const int s : op.in)
        if (s != none && !own) elsewhere[s] = true;
      for (const int s : op.in)
        if (s != none && own) used_[s] = true, only_passed_[s] = only_passed_[s] && op.passes_gradient;
      // What several segments keep is the last one's: the one before makes it again, or hands it over.
      for (const int s : op.saved)
        if (s != none) owned_[s] = own;
      if (op.group != none)
        for (const int s : op.in)
          if (s != none && kept_[s] && !made_in(op.group, s)) owned_[s] = own;
    }
    const int end = tape.operators[tape.num_operators - 1].out[0];
    for (int s = 0; s < tape.num_tensors; ++s) {
      inputs_[s] = used_[s] && !made[s];
      made_[s] = made[s];
      leaves_[s] = made[s] && (elsewhere[s] || s == end);
    }
  }

  double saved() const {
    return sum([&](int s) { return kept_[s] && owned_[s] ? tape_.tensors[s].bytes : 0; });
  }
  double outputs() const {
    return sum([&](int s) { return leaves_[s] ? tape_.tensors[s].bytes : 0; });
  }
  // Of which only this other segment reads.
  double outputs_to(Segment reader) const {
    std::array<bool, Tape::max_tensors> read{}, other{};
    for (int i = 0; i < tape_.num_operators; ++i)
      for (const int s : tape_.operators[i].in)
        if (s != none && tape_.operators[i].segment != segment_)
          (tape_.operators[i].segment == reader ? read : other)[s] = true;
    return sum([&](int s) { return leaves_[s] && read[s] && !other[s] ? tape_.tensors[s].bytes : 0; });
  }
  // Inputs of sums get the output's own gradient, all of them the same one.
  double input_gradients() const {
    double passed = 0;
    for (int s = 0; s < tape_.num_tensors; ++s)
      if (inputs_[s] && only_passed_[s]) passed = std::max(passed, tape_.tensors[s].gradient_bytes);
    return passed + own_input_gradients();
  }

  // Kernels that run a segment as one call after another hold what they make until it has ended.
  double tiled_forward() const {
    double alive = 0, peak = 0, left = 0;
    for (int i = 0; i < tape_.num_operators; ++i) {
      const Tape::Operator& op = tape_.operators[i];
      if (!is_own(op)) continue;
      for (const int s : op.out)
        if (s != none) alive += tape_.tensors[s].bytes, left += stays(s) ? tape_.tensors[s].bytes : 0;
      peak = std::max(peak, alive + op.forward_workspace);
    }
    return peak - left;
  }
  // The inputs' gradients are there from the start; what was dropped is made again where it is needed. With `keeps` the
  // gradients that weights need stay.
  double tiled_backward(bool keeps = false) const {
    std::array<bool, Tape::max_tensors> has{};
    double alive = 0, peak = 0;
    for (int i = tape_.num_operators - 1; i >= 0; --i) {
      const Tape::Operator& op = tape_.operators[i];
      if (!is_own(op)) continue;
      double again = 0;
      for (const int s : op.saved)
        if (s != none && !kept_[s]) again += tape_.tensors[s].bytes;
      if (!op.passes_gradient)
        for (const int s : op.in)
          if (s != none && made_[s] && !leaves_[s] && !has[s]) has[s] = true, alive += tape_.tensors[s].gradient_bytes;
      peak = std::max(peak, alive + op.backward_workspace + again);
      for (const int s : op.out)
        if (s != none && has[s] && !(keeps && op.has_weight && s == op.out[0]))
          has[s] = false, alive -= tape_.tensors[s].gradient_bytes;
    }
    return peak;
  }

  // Each tensor that a weight gradient reads, once: an operator's input (or what of it is saved), and its output's
  // gradient.
  double weight_work() const {
    std::array<bool, Tape::max_tensors> input{}, gradient{};
    for (int i = 0; i < tape_.num_operators; ++i) {
      const Tape::Operator& op = tape_.operators[i];
      if (!is_own(op) || !op.has_weight) continue;
      input[op.saved[0] != none ? op.saved[0] : op.in[0]] = true;
      if (op.out[0] != none) gradient[op.out[0]] = true;
    }
    return sum([&](int s) {
      return (input[s] ? tape_.tensors[s].bytes : 0) + (gradient[s] ? tape_.tensors[s].gradient_bytes : 0);
    });
  }
  double weight_workspace() const {
    double out = 0;
    for (int i = 0; i < tape_.num_operators; ++i)
      if (const Tape::Operator& op = tape_.operators[i]; is_own(op) && op.has_weight)
        out = std::max(out, op.weight_workspace);
    return out;
  }

  // An autograd engine's: the segment's own operators as a tape, with one behind them that takes what leaves.
  struct Workspaces {
    double forward = 0, backward = 0, input = 0;
  };
  Workspaces engine() const {
    Tape own = tape_;
    own.num_operators = 0;
    Tape::Operator next{.name = "next segment"};
    std::size_t out = 0;
    for (int s = 0; s < tape_.num_tensors; ++s) {
      Tape::Tensor& t = own.tensors[s];
      if (!made_[s]) t.producer = none;
      if (!made_[s] && !used_[s]) t.bytes = t.gradient_bytes = 0;
      if (leaves_[s]) next.in.ids.at(out++) = static_cast<std::int8_t>(s);
    }
    for (int i = 0; i < tape_.num_operators; ++i)
      if (is_own(tape_.operators[i])) own.add(tape_.operators[i]);
    own.add(next);
    const TapeMemory m = run_tape(own);
    const auto kept = saved_tensors(own);
    double there = 0, kept_here = 0, gradients = own_input_gradients();
    for (int s = 0; s < own.num_tensors; ++s) {
      const Tape::Tensor& t = own.tensors[s];
      if (inputs_[s] || leaves_[s] || kept[s]) there += t.bytes;
      if (kept[s]) kept_here += t.bytes;
      if (leaves_[s]) gradients += t.gradient_bytes;
    }
    return {std::max(0.0, m.forward_peak - there), std::max(0.0, m.backward_peak - kept_here - gradients),
            std::max(0.0, m.input_peak - kept_here - gradients)};
  }

 private:
  bool is_own(const Tape::Operator& op) const { return op.segment == segment_ && !op.is_message; }
  bool made_in(int group, int s) const {
    const int producer = tape_.tensors[s].producer;
    return producer != none && tape_.operators[producer].group == group;
  }
  bool stays(int s) const { return kept_[s] || leaves_[s]; }
  double own_input_gradients() const {
    return sum([&](int s) { return inputs_[s] && !only_passed_[s] ? tape_.tensors[s].gradient_bytes : 0; });
  }
  template <class Of>
  double sum(const Of& of) const {
    double out = 0;
    for (int s = 0; s < tape_.num_tensors; ++s) out += of(s);
    return out;
  }

  static std::array<bool, Tape::max_tensors> all() {
    std::array<bool, Tape::max_tensors> out;
    out.fill(true);
    return out;
  }

  const Tape& tape_;
  Segment segment_;
  std::array<bool, Tape::max_tensors> kept_, used_{}, owned_{}, made_{}, inputs_{}, leaves_{};
  std::array<bool, Tape::max_tensors> only_passed_ = all();  // used by sums alone
};

}  // namespace

SegmentMemory segment_memory(const ModelSpec& spec, Segment segment, int layer, const SegmentShape& shape) {
  TRIREME_CHECK(segment != Segment::none, "no segment");
  if (segment == Segment::dispatch) return {};
  const SegmentSubject described(shape);
  const Subject subject = described.of(spec);
  const double stream = stream_bytes(subject, subject.share.split_tokens);
  // Its backward has a weight gradient only, of the output's gradient: the first half hands that on.
  if (segment == Segment::embed)
    return {.boundary = Bytes(stream), .weight_work = Bytes(stream), .input_workspace = Bytes(-stream)};
  const bool is_head = segment == Segment::head;
  const Tape tape = is_head ? head_tape(subject) : layer_tape(subject, layer);
  const SegmentReading reading(tape, segment);
  const double passing = segment == Segment::experts ? stream : 0, to_shared = reading.outputs_to(Segment::shared);
  SegmentMemory m{.to_shared = Bytes(to_shared), .saved = Bytes(reading.saved())};
  // A loss goes nowhere, and one that is only evaluated has no gradient.
  if (!is_head) m.boundary = Bytes(reading.outputs() - to_shared + passing);
  if (!is_head || shape.training) m.input_gradient = Bytes(reading.input_gradients() + passing);
  double input = 0;
  if (subject.kernels.tiled) {
    m.forward_workspace = Bytes(reading.tiled_forward());
    m.backward_workspace = Bytes(reading.tiled_backward());
    input = reading.tiled_backward(/*keeps=*/true);
  } else {
    const auto workspaces = reading.engine();
    m.forward_workspace = Bytes(workspaces.forward);
    m.backward_workspace = Bytes(workspaces.backward);
    input = workspaces.input;
  }
  // nn's head adds to its weights' gradients in the forward: nothing is left to do.
  if (!is_head) m.weight_work = Bytes(reading.weight_work()), m.weight_workspace = Bytes(reading.weight_workspace());
  m.input_workspace = Bytes(is_head ? m.backward_workspace.value : input - m.weight_work.value);
  return m;
}

}  // namespace trireme::model
