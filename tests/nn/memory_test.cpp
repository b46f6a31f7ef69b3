// model::segment_memory against the bytes that a counting allocator sees while nn runs each segment.
#include <gtest/gtest.h>

#include <set>

#include "helpers.h"
#include "model/operators.h"
#include "nn/counting_allocator.h"

namespace trireme::nn {
namespace {

using model::Segment;

constexpr std::int64_t sequences = 4, length = 256;

double bytes_of(const std::vector<at::Tensor>& list, const std::vector<at::Tensor>& except = {}) {
  std::set<const void*> seen;
  for (const at::Tensor& t : except)
    if (t.defined()) seen.insert(t.storage().data());
  double sum = 0;
  for (const at::Tensor& t : list)
    if (t.defined() && seen.insert(t.storage().data()).second) sum += static_cast<double>(t.storage().nbytes());
  return sum;
}

std::vector<at::Tensor> fields_of(const Boundary& b) {
  std::vector<at::Tensor> list;
  for (Field f : tensor_fields) list.push_back(field(b, f));
  return list;
}

class Walk {
 public:
  explicit Walk(const model::ModelSpec& spec)
      : spec_(spec),
        model_(make_model(spec, at::kFloat, /*reference=*/false)),
        batch_(make_batch(sequences, length, spec.vocab_size)) {
    const std::int64_t rows = sequences * length * spec.moe.router.top_k;
    shape_ = {.sequences = sequences,
              .sequence_length = length,
              .rows_sent = rows,
              .rows_received = rows,
              .local_experts = spec.moe.num_experts,
              .threads = at::get_num_threads()};
  }

  // Runs the segment on copies of `in`, compares, and makes its outputs the next one's inputs.
  void visit(Segment segment, int layer) {
    const model::SegmentMemory m = model::segment_memory(spec_, segment, layer, shape_);
    model_->forward(segment, layer, in_, batch_);  // the rotary table exists from here on
    const double stream = static_cast<double>(sequences * length * spec_.hidden) * 4;
    const double passing = segment == Segment::experts ? stream : 0;

    const std::int64_t base = current_tensor_bytes();
    Saved saved;
    Boundary gradient, next;
    double boundary = 0, forward_peak = 0;
    {
      Boundary in = in_;
      for (Field f : fields_read(spec_, segment, layer)) field(in, f) = field(in_, f).clone();
      reset_peak_tensor_bytes();
      Model::Forward forward = model_->forward_saving(segment, layer, in, batch_, 0.01);
      forward_peak = static_cast<double>(peak_tensor_bytes() - current_tensor_bytes());
      saved = std::move(forward.saved);
      std::vector<at::Tensor> written;
      for (Field f : fields_written(spec_, segment, layer)) {
        if (std::find(tensor_fields.begin(), tensor_fields.end(), f) == tensor_fields.end()) continue;
        written.push_back(field(forward.out, f));
        field(next, f) = field(forward.out, f).clone();
        field(gradient, f) = at::randn_like(field(next, f));
      }
      next.routing = forward.out.routing;
      boundary = bytes_of(written) + passing;
    }
    // Only what it keeps is left, and what was made for the walk.
    const double kept =
        static_cast<double>(current_tensor_bytes() - base) - bytes_of(fields_of(next)) - bytes_of(fields_of(gradient));
    const std::int64_t before = current_tensor_bytes();
    reset_peak_tensor_bytes();
    const Boundary made_of = model_->backward(std::move(saved), gradient, {});
    const double backward_peak = static_cast<double>(peak_tensor_bytes() - before);
    const double made = segment == Segment::head ? 0 : bytes_of(fields_of(made_of), fields_of(gradient));

    const double total =
        (m.boundary + m.to_shared + m.saved + m.forward_workspace + m.input_gradient + m.backward_workspace).value;
    const auto close = [&](double measured, double predicted, const char* what) {
      // Within 5 %, or 0.5 % of all that the segment holds where the part itself is small.
      EXPECT_NEAR(measured, predicted, std::max(0.05 * predicted, 0.005 * total))
          << what << " of " << model::name_of(segment) << " " << layer;
      measured_ += measured;
    };
    close(boundary, (m.boundary + m.to_shared).value, "outputs");
    close(forward_peak, m.forward_workspace.value, "forward workspace");
    close(kept, m.saved.value, "saved");
    close(bytes_of(fields_of(made_of)) + passing, m.input_gradient.value, "input gradient");
    close(backward_peak, m.backward_workspace.value + made, "backward workspace");
    for (Field f : fields_written(spec_, segment, layer)) field(in_, f) = field(next, f);
    if (next.routing != nullptr) {
      in_.routing = next.routing;
      in_.received_counts_PE = next.routing->counts_E;
    }
  }

  double measured() const { return measured_; }

 private:
  model::ModelSpec spec_;
  std::unique_ptr<Model> model_;
  Batch batch_;
  model::SegmentShape shape_;
  Boundary in_;
  double measured_ = 0;
};

void walk(const model::ModelSpec& spec) {
  install_counting_allocator();
  Walk w(spec);
  w.visit(Segment::embed, -1);
  w.visit(Segment::attention, 0);
  w.visit(Segment::mlp, 0);
  for (const Segment segment : model::computing_segments(spec, 1)) w.visit(segment, 1);
  w.visit(Segment::head, -1);
  // 384 KiB hidden states and several of everything: the allocator did count.
  EXPECT_GT(w.measured(), 20e6);
}

TEST(SegmentMemory, EqualsTheAllocators) {
  walk(medium_spec());
}

TEST(SegmentMemory, EqualsTheAllocatorsWithEveryOption) {
  model::ModelSpec s = medium_spec();
  s.attention.qk_norm = true;
  s.moe.shared_ffn = 64;
  s.moe.router.aux_loss_coefficient = s.moe.router.z_loss_coefficient = 1;
  walk(s);
}

TEST(CountingAllocator, CountsWhatIsAliveAndTheHighest) {
  install_counting_allocator();
  const std::int64_t before = current_tensor_bytes();
  at::Tensor kept = at::empty({1000}, at::kFloat);
  reset_peak_tensor_bytes();
  { const at::Tensor passing = at::empty({500}, at::kDouble); }
  EXPECT_EQ(current_tensor_bytes() - before, 4000);
  EXPECT_EQ(peak_tensor_bytes() - before, 8000);
  kept = at::Tensor();
  EXPECT_EQ(current_tensor_bytes(), before);
}

}  // namespace
}  // namespace trireme::nn
