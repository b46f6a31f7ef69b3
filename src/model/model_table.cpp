#include "model/model_table.h"

#include <charconv>

#include "base/errors.h"

namespace trireme::model {
namespace {

// One row's cells. What a model can't do without sets `missing` when it is empty.
class Row {
 public:
  Row(const CsvTable& table, std::size_t row) : table_(table), row_(row) {}

  const std::string& text(const char* column) const { return table_.text(row_, column); }
  bool says(const char* column, const char* word) const { return text(column).find(word) != std::string::npos; }

  // A whole number, as spreadsheets write it ("8.0") or with a remark behind it ("1 (inferred)"); 0 where the cell is
  // empty.
  int count(const char* column) const {
    const std::string& cell = text(column);
    if (cell.empty()) return 0;
    int value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    const std::string_view rest(end, cell.data() + cell.size() - end);
    if (error != std::errc() || value < 0 || !(rest.empty() || rest == ".0" || rest.starts_with(' ')))
      table_.fail(row_, column, "expected a whole number of at least 0");
    return value;
  }

  int needed(const char* column) {
    const int value = count(column);
    if (value == 0 && missing.empty()) missing = fmt::format("{} is empty", column);
    return value;
  }

  std::string missing;

 private:
  const CsvTable& table_;
  std::size_t row_;
};

// The number behind a word: "sliding-window 128".
int number_behind(const std::string& text, std::string_view word) {
  const auto at = text.find(word);
  if (at == std::string::npos) return 0;
  const auto digits = text.find_first_of("0123456789", at + word.size());
  int value = 0;
  if (digits != std::string::npos) std::from_chars(text.data() + digits, text.data() + text.size(), value);
  return value;
}

void read_attention(Row& row, ModelSpec& spec) {
  AttentionSpec& a = spec.attention;
  const std::string& type = row.text("attention_type");
  a.num_heads = row.needed("heads");
  const int kv_heads = row.count("kv_heads");
  a.num_kv_heads = kv_heads > 0 ? kv_heads : a.num_heads;
  const int head_dim = row.count("head_dim");
  a.head_dim = head_dim > 0 ? head_dim : a.num_heads > 0 ? spec.hidden / a.num_heads : 0;
  if (type.starts_with("MLA")) {
    a.kind = AttentionKind::latent;
    a.num_kv_heads = a.num_heads;
    a.q_lora_rank = row.count("q_lora_rank");
    a.kv_lora_rank = row.needed("kv_lora_rank");
    a.qk_nope_dim = row.needed("qk_nope_dim");
    a.qk_rope_dim = row.count("qk_rope_dim");
    a.v_head_dim = row.needed("v_head_dim");
    a.head_dim = a.qk_nope_dim + a.qk_rope_dim;
  }
  a.sinks = type.find("sinks") != std::string::npos;
  if (const int window = number_behind(type, "sliding-window"); window > 0) {
    a.window = window;
    if (type.find("alternating") != std::string::npos) a.full_every = 2, a.full_offset = 1;
  }
}

void read_moe(Row& row, ModelSpec& spec) {
  MoeSpec& m = spec.moe;
  m.num_experts = row.count("n_experts");
  if (m.num_experts == 0) return;
  m.expert_ffn = row.needed("expert_ffn");
  m.router.top_k = row.needed("topk");
  m.shared_ffn = row.count("n_shared") > 0 ? row.needed("shared_ffn") : 0;
  spec.num_dense_layers = row.count("dense_layers");
  // Every other layer: where the notes say so. Dense layers otherwise come first.
  if (row.says("notes", "alternate") && spec.num_layers == 2 * spec.num_dense_layers) {
    spec.num_dense_layers = 0;
    m.every = 2, m.offset = 1;
  }
}

// What only the notes can say, in the words of docs/models.md.
void read_notes(const Row& row, ModelSpec& spec) {
  const bool biases = row.says("notes", "biases on attention");
  spec.attention.bias = biases || row.says("notes", "QKV bias");
  spec.attention.output_bias = biases;
  spec.attention.qk_norm = row.says("notes", "QK-norm");
  spec.sandwich_norms = row.says("notes", "sandwich norm");
  if (!spec.gated && row.says("notes", "squared ReLU")) spec.activation = Activation::squared_relu;
  if (spec.moe.num_experts == 0) return;
  spec.moe.expert_bias = spec.moe.router.bias = biases && row.says("notes", "experts");
  spec.moe.shared_gate = spec.moe.shared_ffn > 0 && row.says("notes", "shared expert gated");
}

// The model that the columns and the notes describe.
TableModel from_columns(Row row, const std::string& file) {
  const std::string& type = row.text("attention_type");
  if (type.starts_with("hybrid") || type.find("compressed") != std::string::npos)
    return {.spec = {}, .reason = fmt::format("its layers ({}) go beyond the table's columns", type)};
  ModelSpec spec{.name = row.text("model")};
  spec.num_layers = row.needed("layers");
  spec.hidden = row.needed("hidden");
  spec.vocab_size = row.needed("vocab");
  read_attention(row, spec);
  read_moe(row, spec);
  if (spec.moe.num_experts == 0 || spec.num_moe_layers() < spec.num_layers) spec.dense_ffn = row.needed("dense_ffn");
  const int matrices = row.needed("ffn_matrices");
  spec.gated = matrices != 2;
  if (!spec.gated) spec.activation = Activation::gelu;
  spec.tied_embeddings = row.text("tied_embeddings") == "yes";
  spec.mtp_depth = row.count("mtp_depth");
  read_notes(row, spec);
  if (!row.missing.empty()) return {.spec = {}, .reason = row.missing};
  if (matrices != 2 && matrices != 3)
    return {.spec = {}, .reason = fmt::format("ffn_matrices is {}: 2 and 3 are known", matrices)};
  try {
    validate(spec, file);
  } catch (const ConfigError& e) {
    return {.spec = {}, .reason = fmt::format("{} = {}: {}", e.detail().key, e.detail().value, e.detail().allowed)};
  }
  return {.spec = spec, .reason = {}};
}

// Whether a row, as far as it says anything, has the sizes of this model.
bool same_sizes(const Row& row, const ModelSpec& spec) {
  const AttentionSpec& a = spec.attention;
  const MoeSpec& m = spec.moe;
  const auto same = [&](const char* column, std::int64_t size) {
    const int found = row.count(column);
    return found == 0 || found == size;
  };
  const int linear_layers = [&] {
    int count = 0;
    for (int layer = 0; layer < spec.num_layers; ++layer) count += spec.mixer(layer) == Mixer::linear ? 1 : 0;
    return count;
  }();
  return same("layers", spec.num_layers) && same("hidden", spec.hidden) && same("vocab", spec.vocab_size) &&
         same("heads", a.num_heads) && same("kv_heads", a.num_kv_heads) && same("head_dim", a.head_dim) &&
         same("q_lora_rank", a.q_lora_rank) && same("kv_lora_rank", a.kv_lora_rank) &&
         same("qk_nope_dim", a.qk_nope_dim) && same("v_head_dim", a.value_dim()) && same("dense_ffn", spec.dense_ffn) &&
         same("n_experts", m.num_experts) && same("topk", m.router.top_k) && same("expert_ffn", m.expert_ffn) &&
         same("shared_ffn", m.shared_ffn) && same("ffn_matrices", spec.gated ? 3 : 2) &&
         same("moe_layers", spec.num_moe_layers()) &&
         (row.text("tied_embeddings").empty() || (row.text("tied_embeddings") == "yes") == spec.tied_embeddings) &&
         row.says("attention_type", "hybrid") == (linear_layers > 0);
}

std::optional<int> optional_count(const CsvTable& table, std::size_t row, const char* column, int at_least) {
  const std::optional<std::int64_t> value = table.integer(row, column);
  if (!value) return std::nullopt;
  if (*value < at_least || *value > INT32_MAX)
    table.fail(row, column, fmt::format("expected a whole number of at least {}", at_least));
  return static_cast<int>(*value);
}

}  // namespace

TableModel ModelTable::resolve(const Alias& alias) const {
  TableModel model;
  if (const auto listed = models_.find(alias.model); listed != models_.end())
    model = listed->second;
  else if (catalog_)
    model.spec = catalog_->find(alias.model);
  if (!model.spec) {
    if (model.reason.empty()) model.reason = fmt::format("it is another name of {}, which has no row", alias.model);
    return model;
  }
  ModelSpec& spec = *model.spec;
  const bool moe = spec.moe.num_experts > 0;
  spec = with_layers(spec, alias.layers.value_or(spec.num_layers), moe ? alias.dense_layers.value_or(-1) : -1);
  if (alias.mtp_depth) spec.mtp_depth = *alias.mtp_depth;
  return model;
}

TableModel ModelTable::find(const std::string& name) const {
  if (const auto at = models_.find(name); at != models_.end()) return at->second;
  std::optional<ModelSpec> known = catalog_ ? catalog_->find(name) : std::nullopt;
  if (const auto at = aliases_.find(name); at != aliases_.end()) {
    // A cut that has a file of its own may differ in more than its layers.
    if (!known || !at->second.layers || known->num_layers != *at->second.layers) return resolve(at->second);
  }
  if (known) return {.spec = std::move(known), .reason = {}};
  if (const auto at = by_key_.find(model_key(name)); at != by_key_.end()) return find(at->second);
  return {.spec = {}, .reason = "no architecture of this name is listed"};
}

std::vector<std::string> ModelTable::names() const {
  return names_;
}

ModelTable read_model_table_csv(const std::filesystem::path& path, const ModelCatalog* catalog) {
  const CsvTable rows = CsvTable::from_file(path);
  rows.require_columns({"model", "layers", "dense_layers", "hidden", "heads", "kv_heads", "head_dim", "attention_type",
                        "kv_lora_rank", "dense_ffn", "n_experts", "topk", "expert_ffn", "ffn_matrices", "vocab"});
  ModelTable table;
  table.catalog_ = catalog;
  for (std::size_t i = 0; i < rows.num_rows(); ++i) {
    const std::string& name = rows.text(i, "model");
    if (name.empty()) rows.fail(i, "model", "a row needs a name");
    if (table.models_.contains(name)) rows.fail(i, "model", "this name has a row already");
    const Row row(rows, i);
    TableModel model = from_columns(row, rows.file());
    std::optional<ModelSpec> known = catalog ? catalog->find(name) : std::nullopt;
    if (known && same_sizes(row, *known)) {
      if (!row.text("mtp_depth").empty()) known->mtp_depth = row.count("mtp_depth");
      model = {.spec = std::move(known), .reason = {}};
    }
    table.names_.push_back(name);
    table.by_key_.emplace(model_key(name), name);
    table.models_.emplace(name, std::move(model));
  }

  const std::filesystem::path beside = path.parent_path() / "model_aliases.csv";
  if (!std::filesystem::exists(beside)) return table;
  const CsvTable aliases = CsvTable::from_file(beside);
  aliases.require_columns({"alias", "model"});
  for (std::size_t i = 0; i < aliases.num_rows(); ++i) {
    const std::string &alias = aliases.text(i, "alias"), &target = aliases.text(i, "model");
    table.by_key_.emplace(model_key(alias), alias);
    table.aliases_.insert_or_assign(alias,
                                    ModelTable::Alias{.model = target,
                                                      .layers = optional_count(aliases, i, "layers", 1),
                                                      .dense_layers = optional_count(aliases, i, "dense_layers", 0),
                                                      .mtp_depth = optional_count(aliases, i, "mtp_depth", 0)});
  }
  return table;
}

}  // namespace trireme::model
