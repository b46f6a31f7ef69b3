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
  // What a delayed weight gradient needs of this segment.
  double weight_work() const {
    double out = 0;
    for (int i = 0; i < tape_.num_operators; ++i)
      if (is_own(tape_.operators[i])) out += tape_.operators[i].weight_bytes;
    return out;
  }

  // And while it is made: inputs that are made again.
  double weight_workspace() const {
    double out = 0;
    for (int i = 0; i < tape_.num_operators; ++i) {
      const Tape::Operator& op = tape_.operators[i];
      if (!is_own(op) || op.weight_input == none || kept_[op.in[0]]) continue;
      const double bytes = tape_.tensors[op.in[0]].bytes;
      out = std::max(out, bytes > 0 ? bytes : op.weight_workspace);
    }
    return out;
  }

  // Beside what is kept and the gradients of the inputs, which come to be when they are made. What was dropped is made
  // again where it is needed; what was kept goes with the call that needed it. `split`: without the weights' gradients,
  // whose needs stay.
  double tiled_backward(bool split) const {
    std::array<bool, Tape::max_tensors> has{}, later{};  // there; needed by a weight later
    std::array<int, Tape::max_tensors> last{};           // of the backward: the first operator that saves a tensor
    last.fill(none);
    for (int i = tape_.num_operators - 1; i >= 0; --i) {
      const Tape::Operator& op = tape_.operators[i];
      if (!is_own(op)) continue;
      for (const int s : op.saved)
        if (s != none) last[s] = i;
      if (!split || op.weight_bytes == 0) continue;
      if (op.weight_input != none) later[op.weight_input] = true;
      if (op.has_weight && tape_.tensors[op.out[0]].gradient_bytes == 0) later[op.out[0]] = true;  // written over it
    }
    double alive = -own_input_gradients(), peak = 0, freed = 0, kept_scratch = 0;
    const auto make = [&](int s) {
      if (!has[s]) has[s] = true, alive += tape_.tensors[s].gradient_bytes;
    };
    bool begins_call = true;
    for (int i = tape_.num_operators - 1; i >= 0; --i) {
      const Tape::Operator& op = tape_.operators[i];
      if (!is_own(op)) continue;
      for (int k = i; begins_call && k >= 0; --k) {  // what a call writes is there when it begins
        if (!is_own(tape_.operators[k])) continue;
        for (const int s : tape_.operators[k].in)
          if (s != none && inputs_[s] && !only_passed_[s] && !tape_.operators[k].passes_gradient) make(s);
        if (tape_.operators[k].ends_call) break;
      }
      begins_call = op.ends_call;
      double again = 0;
      for (const int s : op.saved)
        if (s != none && !kept_[s]) again += tape_.tensors[s].bytes;
      for (const int s : op.in) {
        if (s == none || (inputs_[s] && only_passed_[s])) continue;
        // A sum hands on its output's gradient: one of our own becomes the input's, unless a weight needs it. What came
        // from outside stays as it is: who adds to it makes a copy.
        if (op.passes_gradient)
          has[s] = has[s] || (!split && has[op.out[0]]);
        else if (!leaves_[s] || passed_on(s))
          make(s);
      }
      peak = std::max(peak, alive + op.backward_workspace + (split ? 0 : op.weight_workspace + again));
      for (const int s : op.out) {
        if (s == none || !has[s] || leaves_[s]) continue;
        const bool needed = split && (op.has_weight || (later[s] && tape_.tensors[s].bytes == 0));
        if (!needed && !op.passes_gradient) alive -= tape_.tensors[s].gradient_bytes;
        has[s] = false;
      }
      for (const int s : op.saved)
        if (s != none && last[s] == i && kept_[s] && owned_[s] && !later[s]) freed += tape_.tensors[s].bytes;
      if (split) kept_scratch += op.kept_scratch;
      if (op.ends_call) alive += kept_scratch - freed, freed = kept_scratch = 0;
    }
    return split ? peak - weight_work() : peak;
  }

  // An autograd engine's: the segment's own operators as a tape, with one behind them that takes what leaves.
  struct Workspaces {
    double forward = 0, backward = 0;
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
    const TapeMemory m = run_tape(own, /*split=*/false);
    const auto kept = saved_tensors(own);
    double there = 0, kept_here = 0, gradients = own_input_gradients();
    for (int s = 0; s < own.num_tensors; ++s) {
      const Tape::Tensor& t = own.tensors[s];
      if (inputs_[s] || leaves_[s] || kept[s]) there += t.bytes;
      if (kept[s]) kept_here += t.bytes;
      if (leaves_[s]) gradients += t.gradient_bytes;
    }
    return {std::max(0.0, m.forward_peak - there), std::max(0.0, m.backward_peak - kept_here - gradients)};
  }

 private:
  bool is_own(const Tape::Operator& op) const { return op.segment == segment_ && !op.is_message; }
  bool made_in(int group, int s) const {
    const int producer = tape_.tensors[s].producer;
    return producer != none && tape_.operators[producer].group == group;
  }
  bool stays(int s) const { return kept_[s] || leaves_[s]; }
  bool passed_on(int s) const {
    const int producer = tape_.tensors[s].producer;
    return producer != none && tape_.operators[producer].passes_gradient;
  }
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
  if (segment == Segment::embed) return {.boundary = Bytes(stream), .weight_work = Bytes(stream)};
  const bool is_head = segment == Segment::head;
  const Tape tape = is_head ? head_tape(subject) : layer_tape(subject, layer);
  const SegmentReading reading(tape, segment);
  const double passing = segment == Segment::experts ? stream : 0, to_shared = reading.outputs_to(Segment::shared);
  SegmentMemory m{.to_shared = Bytes(to_shared), .saved = Bytes(reading.saved())};
  // A loss goes nowhere, and one that is only evaluated has no gradient.
  if (!is_head) m.boundary = Bytes(reading.outputs() - to_shared + passing);
  if (!is_head || shape.training) m.input_gradient = Bytes(reading.input_gradients() + passing);
  if (subject.kernels.tiled) {
    m.forward_workspace = Bytes(reading.tiled_forward());
    m.backward_workspace = Bytes(reading.tiled_backward(/*split=*/false));
    m.weight_work = Bytes(reading.weight_work());
    m.input_workspace = Bytes(reading.tiled_backward(/*split=*/true));
    m.weight_workspace = Bytes(reading.weight_workspace());
  } else {
    // Both halves in the first.
    const auto [forward, backward] = reading.engine();
    m.forward_workspace = Bytes(forward);
    m.backward_workspace = m.input_workspace = Bytes(backward);
  }
  return m;
}

}  // namespace trireme::model
