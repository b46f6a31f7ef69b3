// All files of one token file's set, written beside their names and renamed together.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "train/data/dataset_meta.h"
#include "train/data/dataset_tokenizer.h"
#include "train/data/new_folder.h"
#include "train/data/token_file.h"
#include "train/data/tokenizer.h"
#include "train/data/weight_file.h"
#include "train/data/weighted_spans.h"

namespace trireme::train {

class DatasetFiles {
 public:
  DatasetFiles(std::string prefix, const Tokenizer& tokenizer, bool with_weights);

  // A document's tokens: those of the encoding (with spans, where weights are written) and the specials around them.
  struct Specials {
    bool prepend_bos = false, append_eos = true;
  };
  void add(const Encoding& encoding, const WeightedSpans& weights, std::size_t text_bytes, Specials specials);

  std::int64_t num_documents() const { return tokens_.num_documents(); }
  std::int64_t num_tokens() const { return tokens_.num_tokens(); }
  double sum_of_weights() const { return weights_ ? weights_->sum() : 0; }

  // prepare() puts all on the disk, so that a full one is noticed while the files of before are as they were; commit()
  // gives them their names and removes what another tokenizer or weights of before have left.
  DatasetMeta prepare(const std::vector<std::string>& sources);
  void commit();

 private:
  void remove_what_is_not_kept() const;

  std::string prefix_;
  const Tokenizer& tokenizer_;
  TokenType type_;
  std::optional<NewFolder> tokenizer_folder_;
  TokenWriter tokens_;
  std::optional<WeightWriter> weights_;
  KeptTokenizer kept_;
  std::vector<std::unique_ptr<AtomicFile>> beside_;  // the tokenizer and the description
  std::int64_t num_unknown_ = 0, num_u2581_ = 0;
  std::vector<std::int32_t> document_;
  std::vector<float> document_weights_;
};

}  // namespace trireme::train
