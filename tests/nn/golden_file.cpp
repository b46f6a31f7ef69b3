#include "golden_file.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace trireme::nn {

GoldenFile read_golden(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream all;
  all << file.rdbuf();
  const std::string bytes = all.str();
  std::uint64_t header_length = 0;
  std::memcpy(&header_length, bytes.data(), 8);
  const auto header = nlohmann::json::parse(bytes.substr(8, header_length));
  const std::map<std::string, at::ScalarType> dtypes{{"F64", at::kDouble}, {"I8", at::kChar}, {"I64", at::kLong}};
  GoldenFile golden;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      golden.metadata = entry.get<std::map<std::string, std::string>>();
      continue;
    }
    const auto offsets = entry.at("data_offsets").get<std::vector<std::uint64_t>>();
    at::Tensor t = at::empty(entry.at("shape").get<std::vector<std::int64_t>>(), dtypes.at(entry.at("dtype")));
    if (t.nbytes() != offsets[1] - offsets[0]) throw std::runtime_error("wrong size of " + name);
    std::memcpy(t.data_ptr(), bytes.data() + 8 + header_length + offsets[0], t.nbytes());
    golden.tensors[name] = t;
  }
  return golden;
}

std::size_t fill_from_golden(Model& model, const GoldenFile& golden) {
  std::size_t num_weights = 0;
  for (Parameter* p : model.parameters())
    for (const Piece& piece : p->pieces) {
      const double base = piece.spec.init == model::Init::ones ? 1.0 : 0.0;
      at::Tensor value = p->piece_value(piece).detach();
      value.copy_(golden.tensors.at(piece.spec.name).to(at::kDouble) / 128.0 + base);
      ++num_weights;
    }
  return num_weights;
}

}  // namespace trireme::nn
