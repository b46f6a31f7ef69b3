// The tape of `trireme_device` against the bytes that a counting allocator sees while nn's plain operators, those that
// run on accelerators and in bfloat16, go through a layer.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "gradient_sink.h"
#include "helpers.h"
#include "model/description/describe.h"
#include "nn/counting_allocator.h"

namespace trireme::nn {
namespace {

using model::Segment;

constexpr std::int64_t sequences = 4, length = 256;

struct Measured {
  double saved = 0, forward_peak = 0, backward_peak = 0;  // as TapeMemory counts them
};

// A layer's segments as one autograd graph.
Measured run_layer(const model::ModelSpec& spec, int layer, at::ScalarType dtype) {
  install_counting_allocator();
  const std::unique_ptr<Model> model = make_model(spec, dtype, /*reference=*/false);
  const Batch batch = make_batch(sequences, length, spec.vocab_size);
  const auto forward = [&](Boundary b) {
    for (const Segment segment : model::computing_segments(spec, layer)) {
      if (segment == Segment::experts) b.received_counts_PE = b.routing->counts_E;
      Boundary out = model->forward(segment, layer, b, batch);
      for (const Field f : fields_read(spec, segment, layer))
        if (const auto written = fields_written(spec, segment, layer);
            std::find(written.begin(), written.end(), f) == written.end())
          field(b, f) = at::Tensor();
      for (const Field f : fields_written(spec, segment, layer)) field(b, f) = field(out, f);
      if (out.routing != nullptr) b.routing = out.routing;
    }
    return b;
  };
  const auto stream = [&] { return at::randn({sequences * length, spec.hidden}, at::TensorOptions(dtype)); };
  forward({.x_TD = stream()});  // rotary tables exist from here on
  Measured m;
  const std::int64_t base = current_tensor_bytes();
  auto sink = c10::make_intrusive<Sink>();
  torch::autograd::Edge end;
  std::shared_ptr<const Routing> routing;
  {
    Boundary in{.x_TD = stream()};
    torch::autograd::create_gradient_edge(in.x_TD, sink);
    reset_peak_tensor_bytes();
    const Boundary out = forward(std::move(in));
    m.forward_peak = static_cast<double>(peak_tensor_bytes() - base);
    routing = out.routing;
    end = torch::autograd::impl::gradient_edge(out.x_TD);
  }
  m.saved = static_cast<double>(current_tensor_bytes() - base);
  Boundary gradient{.x_TD = stream()};
  reset_peak_tensor_bytes();
  torch::autograd::Engine::get_default_engine().execute({end}, {gradient.x_TD}, /*keep_graph=*/false,
                                                        /*create_graph=*/false, /*accumulate_grad=*/true);
  m.backward_peak = static_cast<double>(peak_tensor_bytes() - base);
  return m;
}

model::TapeMemory described(const model::ModelSpec& spec, int layer) {
  model::Share share;
  share.sequences = sequences, share.sequence_length = length;
  share.tokens = share.split_tokens = sequences * length;
  share.rows_sent = share.rows = static_cast<double>(sequences * length * spec.moe.router.top_k);
  const model::Kernels kernels = model::find_kernels("trireme_device");
  const model::Precision precision;
  const model::Execution execution;
  return model::run_tape(model::layer_tape({spec, share, precision, execution, kernels}, layer));
}

// `peaks`: how much of a peak the description may miss.
void compare(const model::ModelSpec& spec, int layer, double peaks) {
  const model::TapeMemory d = described(spec, layer);
  const Measured m = run_layer(spec, layer, at::kBFloat16);
  EXPECT_NEAR(m.saved / d.saved, 1, 0.01) << m.saved << " " << d.saved;
  EXPECT_NEAR(m.forward_peak / d.forward_peak, 1, peaks) << m.forward_peak << " " << d.forward_peak;
  EXPECT_NEAR(m.backward_peak / d.backward_peak, 1, peaks) << m.backward_peak << " " << d.backward_peak;
}

TEST(TriremeDevice, HoldsOfADenseLayerWhatTheAllocatorShows) {
  compare(medium_spec(), 0, 0.05);
}

TEST(TriremeDevice, HoldsOfAnMoeLayerWhatTheAllocatorShows) {
  // Peaks lie 12 to 15 % above the description's, which knows no tensors of single experts: nn goes through them in a
  // loop.
  compare(medium_spec(), 1, 0.16);
  model::ModelSpec shared = medium_spec();
  shared.moe.shared_ffn = 64;
  compare(shared, 1, 0.16);
}

}  // namespace
}  // namespace trireme::nn
