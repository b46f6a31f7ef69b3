// Typed access to a Hugging Face config.json, and the keys that its families share.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "model/model_spec.h"

namespace trireme::model {

// A null reads as an absent key. Errors are ConfigError with the dotted key and the value found.
class HfReader {
 public:
  HfReader(const nlohmann::json& config, const std::string& file, std::string prefix = "")
      : config_(config), file_(file), prefix_(std::move(prefix)) {
    if (!config.is_object()) fail("", "expected a JSON object");
  }

  bool has(const char* key) const { return config_.contains(key) && !config_.at(key).is_null(); }

  template <class T>
  T get(const char* key, T otherwise) const {
    if (!has(key)) return otherwise;
    const nlohmann::json& value = config_.at(key);
    const bool right = std::is_same_v<T, bool>          ? value.is_boolean()
                       : std::is_same_v<T, std::string> ? value.is_string()
                       : std::is_integral_v<T>          ? value.is_number_integer()
                                                        : value.is_number();
    if (!right) fail(key, fmt::format("has the wrong type ({})", value.type_name()));
    if constexpr (std::is_same_v<T, int>) {
      const double size = value.get<double>();
      if (std::abs(size) > INT32_MAX) fail(key, fmt::format("must be at most {}", INT32_MAX));
    }
    return value.get<T>();
  }
  int integer(const char* key, int otherwise) const { return get<int>(key, otherwise); }
  int required(const char* key) const {
    if (!has(key)) fail(key, "this key is missing");
    return get<int>(key, 0);
  }

  HfReader object(const char* key) const { return HfReader(config_.at(key), file_, prefix_ + key + "."); }
  const nlohmann::json& at(const char* key) const { return config_.at(key); }
  const std::string& file() const { return file_; }

  [[noreturn]] void fail(const std::string& key, std::string allowed) const;
  void refuse_unless(bool holds, const char* key, std::string allowed) const {
    if (!holds) fail(key, std::move(allowed));
  }

 private:
  const nlohmann::json& config_;
  const std::string& file_;
  std::string prefix_;
};

// vocab_size, hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads and head_dim, where absent, stay
// what `spec` has; a spec without a value needs the key. Then activation, norms, initialisation, tied embeddings.
void read_hf_common(const HfReader& hf, ModelSpec& spec);

// `rope_theta` and `rope_scaling` (transformers 4) or `rope_parameters` (5), and the part of a head that is rotated.
void read_hf_rotation(const HfReader& hf, double theta, AttentionSpec& attention);

// `sliding_window` of the layers that `layer_types` names, or of all.
void read_hf_windows(const HfReader& hf, ModelSpec& spec);

// Qwen: windows only where use_sliding_window says so, from layer max_window_layers on.
void read_hf_switched_windows(const HfReader& hf, ModelSpec& spec);

// Which layers are dense: as the first ones, or every so many. `key` is to blame where they follow no such order.
void set_dense_layers(const HfReader& hf, const char* key, const std::vector<bool>& dense, ModelSpec& spec);

}  // namespace trireme::model
