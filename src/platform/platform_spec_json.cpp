#include <nlohmann/json.hpp>

#include "platform/platform_spec.h"

namespace trireme::platform {

TRIREME_DEFINE_ENUM_JSON(Source,
                         {{Source::guess, "guess"}, {Source::measured, "measured"}, {Source::datasheet, "datasheet"}})
TRIREME_DEFINE_ENUM_JSON(MemoryUse, {{MemoryUse::copy, "copy"},
                                     {MemoryUse::elementwise, "elementwise"},
                                     {MemoryUse::optimizer, "optimizer"}})
TRIREME_DEFINE_ENUM_JSON(Collective, {{Collective::all_to_all, "all_to_all"},
                                      {Collective::all_reduce, "all_reduce"},
                                      {Collective::send_receive, "send_receive"}})
TRIREME_DEFINE_JSON(Peak, dtype, source, flops_per_s)
TRIREME_DEFINE_JSON(GemmCurve, dtype, threads, source, m, n, k, flops_per_s)
TRIREME_DEFINE_JSON(GroupedGemmCurve, dtype, threads, source, rows, n, k, groups, flops_per_s)
TRIREME_DEFINE_JSON(AttentionCurve, dtype, threads, source, sequence, heads, head_dim, forward_flops_per_s,
                    backward_flops_per_s)
TRIREME_DEFINE_JSON(MemoryCurve, use, threads, source, bytes, bytes_per_s)
TRIREME_DEFINE_JSON_WITH_DEFAULT(SegmentTable, dtype, threads, source, model, segment, layer, pass, tokens, experts,
                                 factor, load_cv)
TRIREME_DEFINE_JSON(Device, name, kind, memory_bytes, launch_s, launch_source, peaks, gemm, grouped_gemm, attention,
                    memory, segments)
TRIREME_DEFINE_JSON_WITH_DEFAULT(BusyTable, threads, source, ranks, slow_down, hand_over_s, noise)
TRIREME_DEFINE_JSON(NoiseTable, source, factor)
TRIREME_DEFINE_JSON_WITH_DEFAULT(Host, cores, memory_bytes, ranks, nodes_per_group, per_machine, busy, noise)
TRIREME_DEFINE_JSON_WITH_DEFAULT(SharedLink, level, source, nodes, ranks_per_node, latency_s, message_s, wake_s, turn_s,
                                 bytes_per_s, alone_bytes_per_s, partners, bucket_bytes, own_latency, blend, cards,
                                 copy_bytes_per_s, gather_s, residual)
TRIREME_DEFINE_JSON(PatternRace, pattern, source, nodes, ranks_per_node, top_k, bytes, seconds)
TRIREME_DEFINE_JSON(CollectiveTable, kind, level, ranks, source, bytes, seconds)
TRIREME_DEFINE_JSON(Framework, baseline_bytes, communication_core_share, source)

}  // namespace trireme::platform
