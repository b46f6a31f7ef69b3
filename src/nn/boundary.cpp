#include "nn/boundary.h"

#include "base/errors.h"

namespace trireme::nn {

using model::Segment;

at::Tensor& field(Boundary& b, Field f) {
  switch (f) {
    case Field::x:
      return b.x_TD;
    case Field::normed:
      return b.normed_TD;
    case Field::rows:
      return b.rows_RD;
    case Field::scores:
      return b.scores_R;
    case Field::shared:
      return b.shared_TD;
    case Field::aux_loss:
      return b.aux_loss;
    case Field::z_loss:
      return b.z_loss;
    case Field::loss:
      return b.loss;
  }
  TRIREME_CHECK(false, "unknown boundary field");
  return b.x_TD;
}

const at::Tensor& field(const Boundary& b, Field f) {
  return field(const_cast<Boundary&>(b), f);
}

Boundary joined(Boundary a, const Boundary& b) {
  for (const Field f : tensor_fields) {
    if (!field(b, f).defined()) continue;
    TRIREME_CHECK(!field(a, f).defined(), "two boundaries have field {}", static_cast<int>(f));
    field(a, f) = field(b, f);
  }
  if (b.routing) a.routing = b.routing;
  if (!b.received_counts_PE.empty()) a.received_counts_PE = b.received_counts_PE;
  return a;
}

std::vector<Field> fields_read(const model::ModelSpec& spec, Segment segment, int layer) {
  const bool shared = spec.moe.shared_ffn > 0;
  switch (segment) {
    case Segment::embed:
      return {};
    case Segment::attention:
      return {Field::x};
    case Segment::dispatch:
      return {Field::rows, Field::scores};
    case Segment::shared:
      return {Field::normed};
    case Segment::experts:
      return {Field::rows, Field::scores};
    case Segment::combine:
      if (shared) return {Field::x, Field::rows, Field::shared};
      return {Field::x, Field::rows};
    case Segment::mlp:
      return {Field::x};
    case Segment::head:
      return {Field::x};
    case Segment::none:
      break;
  }
  TRIREME_CHECK(false, "segment {} computes nothing", model::name_of(segment));
  return {};
}

std::vector<Field> fields_written(const model::ModelSpec& spec, Segment segment, int layer) {
  const bool shared = spec.moe.shared_ffn > 0;
  switch (segment) {
    case Segment::embed:
      return {Field::x};
    case Segment::attention: {
      if (!spec.is_moe(layer)) return {Field::x};
      std::vector<Field> fields{Field::x};
      if (shared) fields.push_back(Field::normed);
      fields.insert(fields.end(), {Field::rows, Field::scores});
      if (spec.moe.router.aux_loss_coefficient != 0) fields.push_back(Field::aux_loss);
      if (spec.moe.router.z_loss_coefficient != 0) fields.push_back(Field::z_loss);
      return fields;
    }
    case Segment::dispatch:
      return {Field::rows, Field::scores};
    case Segment::shared:
      return {Field::shared};
    case Segment::experts:
      return {Field::rows};
    case Segment::combine:
      return {Field::x};
    case Segment::mlp:
      return {Field::x};
    case Segment::head:
      return {Field::loss};
    case Segment::none:
      break;
  }
  TRIREME_CHECK(false, "segment {} computes nothing", model::name_of(segment));
  return {};
}

Boundary passed_back(const model::ModelSpec& spec, Segment segment, int layer, Boundary incoming,
                     const Boundary& of_inputs) {
  for (const Field f : fields_written(spec, segment, layer)) field(incoming, f) = at::Tensor();
  for (const Field f : fields_read(spec, segment, layer)) {
    TRIREME_CHECK(field(of_inputs, f).defined(), "{} has no gradient for input {}", model::name_of(segment),
                  static_cast<int>(f));
    TRIREME_CHECK(!field(incoming, f).defined(), "what {} reads went past it, too", model::name_of(segment));
    field(incoming, f) = field(of_inputs, f);
  }
  return incoming;
}

}  // namespace trireme::nn
