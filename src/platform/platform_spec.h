// What a machine is like, as a value: the efficiency curves of its device, its host, its links by level, and how fast
// its collectives were found to be. A file of it is written by `trireme probe` or by hand (docs/platform_file.md).
// Instead of curves, or beside them, it holds what data sheets say (platform/datasheet.h).
// Every table says where its numbers come from. Tables are columns: entry i of each array is one point.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/dtype.h"
#include "platform/datasheet.h"

namespace trireme::platform {

enum class Source { guess, measured, datasheet };
TRIREME_JSON(Source)

struct Peak {
  DType dtype = DType::float32;
  Source source = Source::guess;
  double flops_per_s = 0;  // the highest that a matmul reaches with all of the device
  bool operator==(const Peak&) const = default;
};

// `threads`: of the rank while it was measured; 0 on accelerators.
struct GemmCurve {
  DType dtype = DType::float32;
  int threads = 0;
  Source source = Source::guess;
  std::vector<double> m, n, k, flops_per_s;
  bool operator==(const GemmCurve&) const = default;
};

struct GroupedGemmCurve {
  DType dtype = DType::float32;
  int threads = 0;
  Source source = Source::guess;
  std::vector<double> rows, n, k, groups, flops_per_s;  // rows of one group
  bool operator==(const GroupedGemmCurve&) const = default;
};

struct AttentionCurve {  // causal; FLOPs counted over half of the square
  DType dtype = DType::float32;
  int threads = 0;
  Source source = Source::guess;
  std::vector<double> sequence, heads, head_dim, forward_flops_per_s, backward_flops_per_s;
  bool operator==(const AttentionCurve&) const = default;
};

enum class MemoryUse {
  copy,         // one tensor to another: bytes read and written
  elementwise,  // what a framework call does to tensors of this many bytes in all
  optimizer,    // AdamW: bytes of value, gradient, master and both moments, read and written
};
TRIREME_JSON(MemoryUse)

struct MemoryCurve {
  MemoryUse use = MemoryUse::copy;
  int threads = 0;
  Source source = Source::guess;
  std::vector<double> bytes, bytes_per_s;
  bool operator==(const MemoryCurve&) const = default;
};

// Measured time of whole segments over the sum of their operators on the curves above: what routing, permutation, fused
// passes and caches make of it. Columns of names: "attention", "moe" (or "dense", "end"), "forward" (or "backward").
// A factor is of a micro-batch of `tokens` on a rank with `experts` experts of a layer; both columns may be empty: then
// it stands for all sizes.
struct SegmentTable {
  DType dtype = DType::float32;
  int threads = 0;
  Source source = Source::guess;
  std::string model;  // whose segments were measured
  std::vector<std::string> segment, layer, pass;
  std::vector<double> tokens, experts;
  std::vector<double> factor;
  std::vector<double> load_cv;  // of rows by expert: how uneven the model's routers are to begin with; or empty
  bool operator==(const SegmentTable&) const = default;
};

struct Device {
  std::string name = "cpu";
  std::string kind = "cpu";       // cpu: ranks share the host's cores; cuda: each rank has a device of its own
  double memory_bytes = 0;        // of a rank's device; of the whole host on a CPU
  double launch_s = 0;            // of one framework call, whatever its size; in none of the curves below
  Source launch_source = Source::guess;
  std::vector<Peak> peaks;
  std::vector<GemmCurve> gemm;
  std::vector<GroupedGemmCurve> grouped_gemm;
  std::vector<AttentionCurve> attention;
  std::vector<MemoryCurve> memory;
  std::vector<SegmentTable> segments;  // may be empty: factors of 1
  bool operator==(const Device&) const = default;
};

// How much slower a rank computes when `ranks` ranks with `threads` threads each compute on the host at one time
// (core sharing included), against one alone; how long a waiting thread takes to run on after its condition holds; and
// how far the length of a piece of compute lies from its mean, in the mean, over that mean (empty: see NoiseTable).
struct BusyTable {
  int threads = 1;
  Source source = Source::guess;
  std::vector<double> ranks, slow_down, hand_over_s, noise;
  bool operator==(const BusyTable&) const = default;
};

// How the length of one piece of compute varies from its mean while all ranks of a host compute: factor[i] is the
// quantile i / (size - 1) of length over mean. Empty: not measured. Where BusyTable::noise says how far lengths lie from
// their mean with other numbers of ranks, these quantiles are stretched about 1 to lie as far.
struct NoiseTable {
  Source source = Source::guess;
  std::vector<double> factor;
  bool operator==(const NoiseTable&) const = default;
};

struct Host {
  int cores = 1;
  double memory_bytes = 0;
  int ranks = 0;  // ranks of a run on one host; 0: all of them
  int nodes_per_group = 0;  // hosts that share a switch, in order of their ranks; 0: no such level
  int per_machine = 1;      // hosts that are parts of one machine and share its cores, as scripts/netcluster makes them
  std::vector<BusyTable> busy;
  NoiseTable noise;
  bool operator==(const Host&) const = default;
};

struct Link {
  std::string level = "host";  // "host": between ranks of one host; "network": between hosts
  Source source = Source::guess;
  double latency_s = 0;        // of an empty message, one way
  std::vector<double> bytes, bytes_per_s;  // of one message between two ranks, latency not included
  std::vector<double> p99_s, max_s;        // of the same messages, latency included: how far outliers go; empty: unknown
  bool operator==(const Link&) const = default;
};

// What messages cost while every rank talks at once, by fits to exchanges: what all-to-all patterns are priced with.
struct SharedLink {
  std::string level = "host";  // as of links
  Source source = Source::guess;
  int nodes = 1, ranks_per_node = 1;  // that talked
  double latency_s = 0;               // of a batch of messages that are under way together
  double message_s = 0;               // of a rank's own time, a message sent and one received
  double wake_s = 0;                  // more of it, a message, where few may be under way at one time
  double turn_s = -1;                 // waited for a partner before more may be under way; below 0: not measured
  double bytes_per_s = 0;             // host: of a rank; network: of a network card; each way; with all partners at once
  double alone_bytes_per_s = 0;       // with one partner at a time; 0: as with all
  int partners = 1;                   // that all are
  double bucket_bytes = 0;            // that pass at once where the link was idle before
  double own_latency = 0;             // part of the latency that is ranks' own work: phases side by side add it up
  double blend = 0;                   // p: own work w and wires' work v take (w^p + v^p)^(1/p); 0: the longer of both
  int cards = 1;                      // network cards of a node
  double copy_bytes_per_s = 0;        // of a rank that gathers rows, all ranks doing so; 0: not measured
  double gather_s = 0;                // of a rank that gathers a few rows by their numbers
  double residual = 0;                // median of |fit - measured| / measured
  bool operator==(const SharedLink&) const = default;
};

// A pattern's time by size, from a race on these nodes: what is chosen by where there is one.
struct PatternRace {
  std::string pattern;
  Source source = Source::guess;
  int nodes = 1, ranks_per_node = 1, top_k = 1;
  std::vector<double> bytes, seconds;  // bytes that a rank has for each other one, ascending
  bool operator==(const PatternRace&) const = default;
};

enum class Collective { all_to_all, all_reduce, send_receive };
TRIREME_JSON(Collective)

struct CollectiveTable {
  Collective kind = Collective::all_to_all;
  std::string level = "host";
  int ranks = 2;
  Source source = Source::guess;
  std::vector<double> bytes, seconds;  // bytes that one rank holds: of its tensor (all_reduce, send_receive), or of all
                                       // that it sends, its own part included (all_to_all)
  bool operator==(const CollectiveTable&) const = default;
};

struct Framework {
  double baseline_bytes = 0;             // of a process before any tensor; reported beside the tensors' peak, never in it
  double communication_core_share = 0;   // cores that a rank keeps busy while a message is on its way (CPU)
  Source source = Source::guess;
  bool operator==(const Framework&) const = default;
};

struct PlatformSpec {
  std::string name = "platform";
  Device device;
  Host host;
  Framework framework;
  std::vector<Link> links;
  std::vector<SharedLink> shared_links;  // may be empty: then links stand for them
  std::vector<PatternRace> races;        // may be empty
  std::vector<CollectiveTable> collectives;
  Datasheet datasheet;  // may be empty; where it is not, the curves and links above may be
  bool operator==(const PlatformSpec&) const = default;
};

TRIREME_JSON(Peak)
TRIREME_JSON(GemmCurve)
TRIREME_JSON(GroupedGemmCurve)
TRIREME_JSON(AttentionCurve)
TRIREME_JSON(MemoryCurve)
TRIREME_JSON(SegmentTable)
TRIREME_JSON(Device)
TRIREME_JSON(BusyTable)
TRIREME_JSON(NoiseTable)
TRIREME_JSON(Host)
void to_json(nlohmann::json& j, const Link& link);
void from_json(const nlohmann::json& j, Link& link);  // "p99_s" and "max_s" may be absent
TRIREME_JSON(SharedLink)
TRIREME_JSON(PatternRace)
TRIREME_JSON(CollectiveTable)
TRIREME_JSON(Framework)
void to_json(nlohmann::json& j, const PlatformSpec& spec);
void from_json(const nlohmann::json& j, PlatformSpec& spec);  // "datasheet" may be absent

}  // namespace trireme::platform
