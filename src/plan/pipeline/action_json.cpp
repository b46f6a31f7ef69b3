#include <nlohmann/json.hpp>

#include "plan/pipeline/action.h"

namespace trireme::plan {

TRIREME_DEFINE_ENUM_JSON(Lane, {{Lane::compute, "compute"},
                                {Lane::forward_send, "forward_send"},
                                {Lane::forward_receive, "forward_receive"},
                                {Lane::backward_send, "backward_send"},
                                {Lane::backward_receive, "backward_receive"},
                                {Lane::ep, "ep"},
                                {Lane::dp, "dp"},
                                {Lane::copy, "copy"},
                                {Lane::turned_forward_receive, "turned_forward_receive"},
                                {Lane::turned_backward_receive, "turned_backward_receive"},
                                {Lane::copy_in, "copy_in"},
                                {Lane::turned_forward_send, "turned_forward_send"},
                                {Lane::turned_backward_send, "turned_backward_send"}})
TRIREME_DEFINE_ENUM_JSON(ActionKind, {{ActionKind::load_batch, "load_batch"},
                                      {ActionKind::count_tokens, "count_tokens"},
                                      {ActionKind::forward, "forward"},
                                      {ActionKind::backward, "backward"},
                                      {ActionKind::input_gradient, "input_gradient"},
                                      {ActionKind::weight_gradient, "weight_gradient"},
                                      {ActionKind::all_to_all, "all_to_all"},
                                      {ActionKind::send, "send"},
                                      {ActionKind::receive, "receive"},
                                      {ActionKind::reduce, "reduce"},
                                      {ActionKind::reduce_embedding, "reduce_embedding"},
                                      {ActionKind::gradient_norm, "gradient_norm"},
                                      {ActionKind::reduce_metrics, "reduce_metrics"},
                                      {ActionKind::reduce_counts, "reduce_counts"},
                                      {ActionKind::optimizer, "optimizer"},
                                      {ActionKind::pair, "pair"},
                                      {ActionKind::gather, "gather"},
                                      {ActionKind::swap_out, "swap_out"},
                                      {ActionKind::swap_in, "swap_in"}})
TRIREME_DEFINE_ENUM_JSON(BufferKind, {{BufferKind::boundary, "boundary"},
                                      {BufferKind::saved, "saved"},
                                      {BufferKind::gradient, "gradient"},
                                      {BufferKind::batch, "batch"},
                                      {BufferKind::weight_work, "weight_work"},
                                      {BufferKind::host, "host"}})

}  // namespace trireme::plan
