// Builds the list of parameters.h: the parameters of one layer or end share a prefix and a layer number.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "model/parameters.h"

namespace trireme::model {

class ParameterLister {
 public:
  ParameterLister(const ModelSpec& spec, std::vector<ParameterSpec>& out, std::string prefix = "", int layer = -1)
      : spec_(spec), out_(out), prefix_(std::move(prefix)), layer_(layer) {}

  void add(const std::string& name, std::vector<std::int64_t> shape, Segment segment, Init init = Init::normal,
           int expert = -1) {
    ParameterSpec p{.name = prefix_ + name,
                    .shape = std::move(shape),
                    .layer = layer_,
                    .segment = segment,
                    .expert = expert,
                    .init = init};
    p.weight_decay = p.shape.size() > 1;  // matrices yes; norms and biases no
    out_.push_back(std::move(p));
  }

  // name.weight, and name.bias where asked for.
  void linear(const std::string& name, std::int64_t rows, std::int64_t columns, Segment segment, bool bias = false,
              int expert = -1) {
    add(name + ".weight", {rows, columns}, segment, Init::normal, expert);
    if (bias) add(name + ".bias", {rows}, segment, Init::zeros, expert);
  }

  void rms_norm(const std::string& name, std::int64_t width, Segment segment) {
    add(name + ".weight", {width}, segment, Init::ones);
  }

  // A norm of the residual stream, of the model's kind.
  void norm(const std::string& name, Segment segment) {
    rms_norm(name, spec_.hidden, segment);
    if (spec_.norm == NormKind::layer) add(name + ".bias", {spec_.hidden}, segment, Init::zeros);
  }

  void feed_forward(const std::string& name, std::int64_t width, std::int64_t ffn, Segment segment, bool bias,
                    int expert = -1) {
    if (spec_.gated) linear(name + ".gate", ffn, width, segment, bias, expert);
    linear(name + ".up", ffn, width, segment, bias, expert);
    linear(name + ".down", width, ffn, segment, bias, expert);
  }

  // What mixes residual streams around one block (arXiv 2512.24880), `mixes` numbers a token; nothing with one stream.
  void streams(const std::string& name, std::int64_t mixes, std::int64_t scales, Segment segment) {
    const std::int64_t n = spec_.residual_streams;
    if (n == 1) return;
    add(name + ".weight", {mixes, n * spec_.hidden}, segment);
    add(name + ".bias", {mixes}, segment, Init::zeros);
    add(name + ".scale", {scales}, segment, Init::zeros);
  }

 private:
  const ModelSpec& spec_;
  std::vector<ParameterSpec>& out_;
  std::string prefix_;
  int layer_;
};

// Attention or a linear mixer of a layer, without the norms of the residual stream.
void list_mixer(const ModelSpec& spec, int layer, ParameterLister& list);

}  // namespace trireme::model
