// Models of every kind that the segments know, each a change of tiny_spec(), with the documents of a batch's sequences.
#pragma once
#include <vector>

#include "model/model_spec.h"

namespace trireme::nn {

struct ModelCase {
  const char* name;
  void (*change)(model::ModelSpec&);
  std::vector<std::int64_t> documents;  // lengths, of a sequence of 70 tokens; empty: one
};

std::vector<ModelCase> model_cases();

}  // namespace trireme::nn
