#include <nlohmann/json.hpp>

#include "train/data/dataset_meta.h"

namespace trireme::train {

TRIREME_DEFINE_JSON_WITH_DEFAULT(DatasetMeta, tokenizer, tokenizer_file, vocab_size, eos, bos, pad, num_documents,
                                 num_tokens, max_token, bin_bytes, num_unknown, num_u2581, weights, sources)

}  // namespace trireme::train
