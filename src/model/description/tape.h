// What a run of operators keeps for its backward and how much it holds at its worst moment, from nothing but the sizes
// of its tensors and who uses them. An autograd engine's rules, without running one:
// - Forward: an operator's outputs are allocated, then its inputs are freed that no later operator uses and none saves.
// - Backward, in reverse order: gradients of the inputs are allocated (a second gradient of the same tensor is added to
//   the first, and both are alive for that moment), then the operator's output gradients and what only it saved go.
// - Recomputed operators keep what enters their group; it is run again before the backward needs it.
// Fixed-size arrays: no memory is allocated, so that a search can ask for millions of layouts.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>

#include "model/description/room.h"
#include "model/segment.h"

namespace trireme::model {

// How a group of operators is recomputed.
enum class Rerun : std::uint8_t {
  checkpoint,  // before the backward of the group's last operator; what the group hands on is kept where others save it
  output,      // what the group hands on is dropped too, and comes back before the backward of its last user
};

struct Tape {
  static constexpr int max_tensors = 80, max_operators = 56, max_groups = 12;
  static constexpr int none = -1;

  struct Tensor {
    const char* name = "";
    double bytes = 0;
    double gradient_bytes = 0;  // 0: has no gradient
    int producer = none;        // operator; none: comes from outside
  };
  // Tensors by number; `none` is skipped.
  template <std::size_t capacity>
  struct List {
    std::array<std::int8_t, capacity> ids;
    constexpr List() { ids.fill(none); }
    constexpr List(std::initializer_list<int> values) : List() {
      std::size_t n = 0;
      for (int v : values) ids.at(n++) = static_cast<std::int8_t>(v);
    }
    constexpr auto begin() const { return ids.begin(); }
    constexpr auto end() const { return ids.end(); }
    constexpr int operator[](std::size_t i) const { return ids[i]; }
    constexpr std::size_t size() const { return capacity; }
  };
  struct Operator {
    const char* name = "";
    List<4> in, out;
    List<6> saved;
    List<3> holds;                   // not freed before it has run
    int group = none;                // of recomputation
    bool passes_gradient = false;    // a sum: its inputs' gradients are its output's own
    bool gradient_in_place = false;  // the gradient of in[0], which it saves, takes that tensor's storage
    bool is_message = false;         // rows on their way between ranks: no segment's compute
    Segment segment = Segment::none;
    bool has_weight = false;  // its weight gradient needs in[0] (or what of it is saved) and the gradient of out[0]
    double forward_workspace = 0;  // bytes beside inputs and outputs while it runs
    double backward_workspace = 0;
    double weight_workspace = 0;  // beside them in the part of the backward that makes the weight gradient
    // Of kernels that run a segment as one call after another:
    bool ends_call = false;     // in the backward, where what was saved for the call alone is freed with it
    double weight_bytes = 0;    // what a delayed gradient of its weight needs: its input, and the gradient of its output
    int weight_input = none;    // that input, where a tensor holds it; one of no bytes takes its own gradient's storage
    double kept_scratch = 0;    // that gradient, where it is in backward_workspace until the call ends
  };

  Room<Tensor, max_tensors> tensors;
  Room<Operator, max_operators> operators;
  std::array<Rerun, max_groups> groups{};
  int num_tensors = 0, num_operators = 0;

  int tensor(const char* name, double bytes);  // with a gradient of the same size
  int tensor(const char* name, double bytes, double gradient_bytes);
  Operator& add(const Operator& op);  // sets the producers of its outputs
};

// Bytes relative to what is there before the run's input exists. The input counts as the run's own; its output does
// not, where it only leaves (the next run's input is this run's output).
struct TapeMemory {
  double saved = 0;          // between forward and backward
  double forward_peak = 0;   // input and output included
  double backward_peak = 0;  // from all of `saved` and the output's gradient to the input's gradient
  double input_peak = 0;     // the same of a backward that leaves weight gradients for later
  double weight_held = 0;    // what stays until then: inputs of weighted operators and gradients of their outputs
  double weight_peak = 0;    // of the later part, from weight_held
  const char* forward_peak_at = "";
  const char* backward_peak_at = "";
  const char* input_peak_at = "";
};
// Without `split` the three fields of the split backward stay 0.
TapeMemory run_tape(const Tape& tape, bool split = true);

// Whether a tensor is alive between forward and backward.
std::array<bool, Tape::max_tensors> saved_tensors(const Tape& tape);

}  // namespace trireme::model
