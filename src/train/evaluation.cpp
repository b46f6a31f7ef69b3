#include "train/evaluation.h"

#include <algorithm>
#include <chrono>

#include "base/errors.h"
#include "train/data/batch.h"
#include "train/data/bigram.h"

namespace trireme::train {
namespace {

constexpr int micro_batches_a_stage = 4;  // fewer, and stages mostly wait for each other
constexpr double progress_every_s = 5;

// Says how far an evaluation is, from its fifth second on.
class Progress {
 public:
  Progress(const EvaluationOptions& options, std::int64_t sequences) : options_(options), sequences_(sequences) {}

  void add(const std::string& name, std::int64_t sequences) {
    done_ += sequences;
    const auto now = std::chrono::steady_clock::now();
    if (!options_.on_message || done_ == sequences_ ||
        std::chrono::duration<double>(now - said_).count() < progress_every_s)
      return;
    said_ = now;
    options_.on_message(fmt::format("evaluating {}: {} of {} sequences, {:.0f}%", name, done_, sequences_,
                                    100.0 * static_cast<double>(done_) / static_cast<double>(sequences_)));
  }

 private:
  const EvaluationOptions& options_;
  std::int64_t sequences_, done_ = 0;
  std::chrono::steady_clock::time_point said_ = std::chrono::steady_clock::now();
};

}  // namespace

Evaluation::Evaluation(const plan::RunSpec& run, std::vector<EvaluationSet> sets, const plan::Mesh& mesh,
                       comm::Communicator& communicator, int rank, nn::Model& model, EvaluationOptions options)
    : run_(run),
      sets_(std::move(sets)),
      mesh_(mesh),
      communicator_(communicator),
      rank_(rank),
      model_(model),
      options_(std::move(options)),
      most_micro_batches_(std::max(options_.micro_batches, mesh.pp > 1 ? micro_batches_a_stage * mesh.pp : 1)) {
  TRIREME_CHECK(!sets_.empty());
}

Evaluation::Pass& Evaluation::pass_of(int micro_batches) {
  const auto found = passes_.find(micro_batches);
  if (found != passes_.end()) return found->second;
  Pass& pass = passes_[micro_batches];
  pass.plan = plan::make_evaluation_plan(run_, mesh_, micro_batches);
  parallel::StepHooks hooks;
  const std::int64_t of_rank =
      static_cast<std::int64_t>(mesh_.dp_index(rank_)) * micro_batches * run_.batch.micro_batch;
  hooks.batch = [this, of_rank](int mb) {
    return make_batch(*source_, first_ + of_rank + mb * run_.batch.micro_batch, run_.batch.micro_batch,
                      model_.options().device);
  };
  hooks.stop_flag = [this] { return options_.stop_requested && options_.stop_requested() ? 1.0 : 0.0; };
  pass.runtime = std::make_unique<parallel::StageRuntime>(run_, pass.plan, communicator_, rank_, model_, nullptr,
                                                          std::move(hooks));
  return pass;
}

parallel::StepSums Evaluation::run_pass(const SequenceSource& source, std::int64_t first, int micro_batches) {
  source_ = &source;
  first_ = first;
  ++num_passes_run_;
  return pass_of(micro_batches).runtime->step().sums;
}

EvaluationResult Evaluation::run() {
  const std::int64_t at_once = run_.batch.micro_batch * mesh_.dp;
  std::int64_t all = 0;
  for (const EvaluationSet& set : sets_)
    if (__builtin_add_overflow(all, set.source->num_sequences(), &all)) all = INT64_MAX;
  Progress progress(options_, all);
  EvaluationResult out;
  std::vector<double> losses;
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    const std::int64_t sequences = sets_[i].source->num_sequences();
    SetLoss& of_set = out.sets.emplace_back(SetLoss{.name = sets_[i].name, .sequences = sequences});
    for (std::int64_t first = 0; first < sequences;) {
      const std::int64_t left = sequences - first;
      const auto micro_batches =
          static_cast<int>(std::min<std::int64_t>(most_micro_batches_, left / at_once + (left % at_once > 0)));
      const parallel::StepSums sums = run_pass(*sets_[i].source, first, micro_batches);
      of_set.loss_sum += sums.loss;
      of_set.weight += sums.weight;
      const std::int64_t taken = std::min(left, micro_batches * at_once);
      first += taken;
      out.stop = sums.stop > 0;
      if (out.stop && (first < sequences || i + 1 < sets_.size())) return {.stop = true};
      progress.add(sets_[i].name, taken);
    }
    if (of_set.weight > 0) of_set.loss = of_set.loss_sum / of_set.weight;
    losses.push_back(of_set.loss);
  }
  out.complete = true;
  out.loss = mean_of_sets(sets_, losses);
  return out;
}

double mean_of_sets(const std::vector<EvaluationSet>& sets, const std::vector<double>& losses) {
  if (sets.size() == 1) return losses[0];
  double sum = 0, weight = 0;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    sum += sets[i].weight * losses[i];
    weight += sets[i].weight;
  }
  return sum / weight;
}

double bigram_loss(const plan::RunSpec& run) {
  if (run.train.eval_sequences == 0 || run.data.train.size() != 1 || run.data.train[0].prefix == "random") return -1;
  const std::vector<EvaluationSet> sets = open_evaluation(run);
  double sequences = 0;
  for (const EvaluationSet& set : sets) sequences += static_cast<double>(set.source->num_sequences());
  if (sequences * static_cast<double>(run.batch.sequence_length) > static_cast<double>(most_bigram_tokens)) return -1;
  const TokenReader tokens(run.data.train[0].prefix, {run.file, "data.train"});
  const BigramModel bigram(tokens, run.model.vocab_size, run.data.reset_at_documents);
  std::vector<double> losses;
  for (const EvaluationSet& set : sets)
    losses.push_back(cross_entropy(bigram, *set.source, set.source->num_sequences()).nats_per_token);
  return mean_of_sets(sets, losses);
}

}  // namespace trireme::train
