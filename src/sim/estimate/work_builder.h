// Adds works with their backwards: the counts of FLOPs and bytes that follow from a shape.
#pragma once
#include "sim/estimate/work.h"

namespace trireme::sim {

class WorkBuilder {
 public:
  WorkBuilder(const Setting& setting, OperatorList& out);

  // All passes. A matmul's weight gradient and input gradient are a matmul of the same size each. In a narrow compute
  // format the input is quantised before, and the output's gradient in the backward, for both orientations.
  struct Quantised {
    bool input = true, gradient = true;  // by passes of their own; false: as the kernel before writes them
  };
  void matmul(const char* what, Part part, double m, double n, double k, double groups = 1) {
    matmul(what, part, m, n, k, groups, {});
  }
  void matmul(const char* what, Part part, double m, double n, double k, double groups, Quantised quantised);
  void matmul_16(const char* what, Part part, double m, double n, double k);  // whatever the compute format
  // Up (and gate), activation and down of one expert or a dense feed-forward; `rows` of one group.
  void feed_forward(Part part, double rows, double width, double ffn, double groups);
  void norm(const char* what, double elements);
  // Passes over memory of activation elements: each pass reads or writes `elements`.
  void elementwise(const char* what, Part part, double elements, double forward_passes, double backward_passes,
                   double launches);
  void residual();                 // with the norm before it, where the model has one
  void exchange(double elements);  // dispatch and combine, forward and backward

  // One pass.
  void memory(const char* what, Part part, OperatorPass pass, double bytes, double launches);
  void attention(const char* what, OperatorPass pass, double flops, double launches);
  void batched(const char* what, Part part, OperatorPass pass, double m, double n, double k, double groups);
  void collective(const char* what, Part part, OperatorPass pass, CollectiveKind kind, Axis axis, double message,
                  bool beside);

  // Whatever is added from now on: Operator::apart.
  void set_apart(bool apart) { apart_ = apart; }
  // Marks weight gradients of a part that are there already.
  void weight_gradients_apart(Part part);

  double sequences() const { return double(setting.batch.micro_batch); }

  const Setting& setting;
  const TokenCounts tokens;
  const double load;  // rows of the heaviest expert rank over the mean

 private:
  void one_matmul(const char* what, Part part, OperatorPass pass, double m, double n, double k, double groups, bool narrow);
  bool narrow_format() const;
  double expert_launches(double groups) const;  // of the host, for a matmul or pass of each of them
  void add(Operator work);

  OperatorList& out_;
  bool apart_ = false;
};

}  // namespace trireme::sim
