#include "train/evaluation.h"

#include "base/errors.h"
#include "train/data/batch.h"
#include "train/data/bigram.h"

namespace trireme::train {

Evaluation::Evaluation(const plan::RunSpec& run, const plan::Mesh& mesh, comm::Communicator& communicator, int rank,
                       nn::Model& model)
    : source_(open_evaluation(run)) {
  TRIREME_CHECK(source_ != nullptr);
  const std::int64_t at_once = run.batch.micro_batch * mesh.dp;
  const std::int64_t micro_batches = (run.train.eval_sequences + at_once - 1) / at_once;
  plan_ = plan::make_evaluation_plan(run, mesh, static_cast<int>(micro_batches));
  const std::int64_t first = mesh.dp_index(rank) * micro_batches * run.batch.micro_batch;
  parallel::StepHooks hooks;
  hooks.batch = [this, first, count = run.batch.micro_batch, device = model.options().device](int mb) {
    return make_batch(*source_, first + mb * count, count, device);
  };
  runtime_ = std::make_unique<parallel::StageRuntime>(run, plan_, communicator, rank, model, nullptr, std::move(hooks));
}

double Evaluation::run() { return runtime_->step().sums.mean_loss(); }

double bigram_loss(const plan::RunSpec& run) {
  if (run.train.eval_sequences == 0 || run.data.train.at(0).prefix == "random") return -1;
  const TokenReader tokens(run.data.train.at(0).prefix, {run.file, "data.train"});
  const BigramModel bigram(tokens, run.model.vocab_size, run.data.reset_at_documents);
  return cross_entropy(bigram, *open_evaluation(run), run.train.eval_sequences).nats_per_token;
}

}  // namespace trireme::train
