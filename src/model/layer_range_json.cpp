#include <nlohmann/json.hpp>

#include "model/layer_range.h"

namespace trireme::model {

void to_json(nlohmann::json& j, const LayerRange& r) {
  j = {{"first_layer", r.first_layer}, {"num_layers", r.num_layers}, {"embed", r.embed}, {"head", r.head}};
}

void from_json(const nlohmann::json& j, LayerRange& r) {
  j.at("first_layer").get_to(r.first_layer);
  j.at("num_layers").get_to(r.num_layers);
  j.at("embed").get_to(r.embed);
  j.at("head").get_to(r.head);
  r.mtp = r.head;
}

}  // namespace trireme::model
