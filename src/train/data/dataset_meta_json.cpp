#include <nlohmann/json.hpp>

#include "train/data/dataset_meta.h"

namespace trireme::train {

TRIREME_DEFINE_JSON_WITH_DEFAULT(DatasetMeta, tokenizer, tokenizer_file, vocab_size, eos, num_documents, num_tokens,
                                 max_token, bin_bytes, sources)

}  // namespace trireme::train
