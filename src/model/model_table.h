// Architectures from a table with one row a model, as collections of published measurements have them: the columns of
// docs/models.md ("Model tables"). Beside the table lies, where there is one, model_aliases.csv: further names of its
// models, cut to fewer layers or with another number of dense layers or MTP blocks.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/csv_table.h"
#include "model/model_catalog.h"

namespace trireme::model {

// A model of the table, or why it can't be described.
struct TableModel {
  std::optional<ModelSpec> spec;
  std::string reason;  // "vocab is empty"; empty where there is a spec
};

class ModelTable {
 public:
  // By the table's names, then its aliases, then the catalog's names, then by model_key among the first two. An alias
  // that is cut to some layers and has a file of its own in the catalog is that file's.
  TableModel find(const std::string& name) const;
  std::vector<std::string> names() const;  // in file order

 private:
  friend ModelTable read_model_table_csv(const std::filesystem::path&, const ModelCatalog*);
  struct Alias {
    std::string model;
    std::optional<int> layers, dense_layers, mtp_depth;
  };
  TableModel resolve(const Alias& alias) const;

  std::vector<std::string> names_;
  std::map<std::string, TableModel> models_;
  std::map<std::string, Alias> aliases_;
  std::map<std::string, std::string> by_key_;  // model_key -> name or alias
  const ModelCatalog* catalog_ = nullptr;
};

// A row whose sizes are those of the catalog's model of that name takes that model, which knows what the table has no
// columns for: biases, norms, windows, router kinds, the order of hybrid layers. Any other row is read from its columns
// and its notes. ConfigError for a missing column or a malformed number; a row that leaves a size out, and an alias of
// a model that neither the table nor the catalog has, become reasons. `catalog` may be null and must outlive the table.
ModelTable read_model_table_csv(const std::filesystem::path& path, const ModelCatalog* catalog = nullptr);

}  // namespace trireme::model
