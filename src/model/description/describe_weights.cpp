#include "model/description/walk.h"

namespace trireme::model {

double vocabulary_rows(const ModelSpec& model, const Kernels& kernels, int tp) {
  const double multiple = static_cast<double>(kernels.vocabulary_multiple) * tp;
  const double rows = static_cast<double>(model.vocab_size + kernels.vocabulary_extra);
  return std::ceil(rows / multiple) * multiple / tp;
}

namespace {

template <class Reading>
WeightList list_of(const Subject& s, const Reading& reading) {
  WeightList list;
  reading(Walk<WeightSink>(s, {list}));
  return list;
}

}  // namespace

WeightList layer_weights(const Subject& s, int layer) {
  return list_of(s, [&](auto walk) { walk.layer(layer); });
}
WeightList embedding_weights(const Subject& s) {
  return list_of(s, [](auto walk) { walk.embedding(); });
}
WeightList head_weights(const Subject& s, bool own_matrix) {
  return list_of(s, [&](auto walk) { walk.head(own_matrix); });
}
WeightList head_stream_weights(const Subject& s) {
  return list_of(s, [](auto walk) { walk.head_streams(); });
}
WeightList mtp_weights(const Subject& s) {
  return list_of(s, [](auto walk) { walk.mtp(); });
}

WeightElements elements(const WeightList& list) {
  WeightElements out;
  for (const Weight& w : list) (w.place == WeightPlace::expert ? out.expert : out.dense) += w.elements();
  return out;
}

double accumulated_elements(const WeightList& list) {
  double out = 0;
  for (const Weight& w : list)
    if (w.kind == WeightKind::matrix && w.accumulates) out += w.elements();
  return out;
}

}  // namespace trireme::model
