#include "platform/platform_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/config_table.h"
#include "base/errors.h"
#include "base/json_words.h"
#include "base/read_file.h"
#include "base/units.h"
#include "platform/datasheet_file.h"
#include "platform/platform_checks.h"

namespace trireme::platform {

namespace {

constexpr double giga = 1e9, micro = 1e-6;

Source read_source(ConfigTable& t) {
  return nlohmann::json(t.one_of_or("source", "guess", {"guess", "measured", "datasheet"})).get<Source>();
}

DType read_dtype(ConfigTable& t) {
  return dtype_from_name(t.one_of_or("dtype", "float32", {"float32", "float64", "bfloat16", "float16"}));
}

int read_threads(ConfigTable& t) { return static_cast<int>(t.integer_or("threads", 0, 0, 1 << 20)); }

std::vector<double> column_or_none(ConfigTable& t, const char* key, double unit = 1) {
  auto out = t.numbers_or(key, {});
  for (double& x : out) x *= unit;
  return out;
}
std::vector<double> column(ConfigTable& t, const char* key, double unit = 1) {
  auto out = column_or_none(t, key, unit);
  if (out.empty()) t.fail(key, "an array of at least one number");
  return out;
}

Device read_device(ConfigTable t) {
  Device d;
  d.name = t.string_or("name", d.name);
  d.kind = t.one_of_or("kind", d.kind, {"cpu", "cuda"});
  d.memory_bytes = t.number("memory_GiB", 1e-3) * GiB;
  d.launch_s = t.number("launch_us", 0) * micro;
  d.launch_source = nlohmann::json(t.one_of_or("launch_source", "guess", {"guess", "measured"})).get<Source>();
  for (ConfigTable& p : t.tables("peak"))
    d.peaks.push_back({.dtype = read_dtype(p), .source = read_source(p), .flops_per_s = p.number("GFLOPps", 1e-6) * giga});
  for (ConfigTable& c : t.tables("gemm"))
    d.gemm.push_back({.dtype = read_dtype(c), .threads = read_threads(c), .source = read_source(c), .m = column(c, "m"),
                      .n = column(c, "n"), .k = column(c, "k"), .flops_per_s = column(c, "GFLOPps", giga)});
  for (ConfigTable& c : t.tables("grouped_gemm"))
    d.grouped_gemm.push_back({.dtype = read_dtype(c), .threads = read_threads(c), .source = read_source(c),
                              .rows = column(c, "rows"), .n = column(c, "n"), .k = column(c, "k"),
                              .groups = column(c, "groups"), .flops_per_s = column(c, "GFLOPps", giga)});
  for (ConfigTable& c : t.tables("attention"))
    d.attention.push_back({.dtype = read_dtype(c), .threads = read_threads(c), .source = read_source(c),
                           .sequence = column(c, "sequence"), .heads = column(c, "heads"),
                           .head_dim = column(c, "head_dim"),
                           .forward_flops_per_s = column(c, "forward_GFLOPps", giga),
                           .backward_flops_per_s = column(c, "backward_GFLOPps", giga)});
  for (ConfigTable& c : t.tables("memory")) {
    const std::string use = c.one_of_or("use", "copy", {"copy", "elementwise", "optimizer"});
    d.memory.push_back({.use = nlohmann::json(use).get<MemoryUse>(), .threads = read_threads(c),
                        .source = read_source(c), .bytes = column(c, "bytes"),
                        .bytes_per_s = column(c, "GBps", giga)});
  }
  for (ConfigTable& c : t.tables("segment"))
    d.segments.push_back({.dtype = read_dtype(c), .threads = read_threads(c), .source = read_source(c),
                          .model = c.string_or("model", ""), .segment = c.strings_or("segment", {}),
                          .layer = c.strings_or("layer", {}), .pass = c.strings_or("pass", {}),
                          .tokens = column_or_none(c, "tokens"), .experts = column_or_none(c, "experts"),
                          .factor = column(c, "factor"), .load_cv = column_or_none(c, "load_cv")});
  return d;
}

Host read_host(ConfigTable t) {
  Host h;
  h.cores = static_cast<int>(t.integer("cores", 1, 1 << 20));
  h.memory_bytes = t.number("memory_GiB", 1e-3) * GiB;
  h.ranks = static_cast<int>(t.integer_or("ranks", 0, 0, 1 << 20));
  h.nodes_per_group = static_cast<int>(t.integer_or("nodes_per_group", 0, 0, 1 << 20));
  h.per_machine = static_cast<int>(t.integer_or("per_machine", 1, 1, 1 << 20));
  for (ConfigTable& b : t.tables("busy"))
    h.busy.push_back({.threads = read_threads(b), .source = read_source(b), .ranks = column(b, "ranks"),
                      .slow_down = column(b, "slow_down"), .hand_over_s = column(b, "hand_over_us", micro),
                      .noise = column_or_none(b, "noise")});
  if (t.has("noise")) {
    ConfigTable n = t.table("noise");
    h.noise = {.source = read_source(n), .factor = column(n, "factor")};
  }
  return h;
}

}  // namespace

PlatformSpec parse_platform(const std::string& toml, const std::string& file_name) {
  ConfigTable t = ConfigTable::from_text(toml, file_name);
  PlatformSpec p;
  p.name = t.string_or("name", p.name);
  p.device = read_device(t.table("device"));
  p.host = read_host(t.table("host"));
  ConfigTable f = t.table("framework");
  p.framework = {.baseline_bytes = f.number_or("baseline_MiB", 0, 0) * MiB,
                 .communication_core_share = f.number_or("communication_core_share", 0, 0, 1),
                 .source = read_source(f)};
  for (ConfigTable& l : t.tables("link"))
    p.links.push_back({.level = l.one_of_or("level", "host", {"host", "network"}), .source = read_source(l),
                       .latency_s = l.number("latency_us", 0) * micro, .bytes = column(l, "bytes"),
                       .bytes_per_s = column(l, "GBps", giga), .p99_s = column_or_none(l, "p99_us", micro),
                       .max_s = column_or_none(l, "max_us", micro)});
  for (ConfigTable& l : t.tables("shared_link"))
    p.shared_links.push_back({.level = l.one_of_or("level", "host", {"host", "network"}), .source = read_source(l),
                              .nodes = static_cast<int>(l.integer_or("nodes", 1, 1, 1 << 20)),
                              .ranks_per_node = static_cast<int>(l.integer_or("ranks_per_node", 1, 1, 1 << 20)),
                              .latency_s = l.number("latency_us", 0) * micro,
                              .message_s = l.number("message_us", 0) * micro,
                              .wake_s = l.number_or("wake_us", 0, 0) * micro,
                              .turn_s = l.number_or("turn_us", -1, -1) * micro,
                              .bytes_per_s = l.number("GBps", 1e-9) * giga,
                              .alone_bytes_per_s = l.number_or("alone_GBps", 0, 0) * giga,
                              .partners = static_cast<int>(l.integer_or("partners", 1, 1, 1 << 20)),
                              .bucket_bytes = l.number_or("bucket_bytes", 0, 0),
                              .own_latency = l.number_or("own_latency", 0, 0, 1),
                              .blend = l.number_or("blend", 0, 0),
                              .cards = static_cast<int>(l.integer_or("cards", 1, 1, 1 << 10)),
                              .copy_bytes_per_s = l.number_or("copy_GBps", 0, 0) * giga,
                              .gather_s = l.number_or("gather_us", 0, 0) * micro,
                              .residual = l.number_or("residual", 0, 0)});
  for (ConfigTable& r : t.tables("pattern_race"))
    p.races.push_back({.pattern = r.string("pattern"), .source = read_source(r),
                       .nodes = static_cast<int>(r.integer("nodes", 1)),
                       .ranks_per_node = static_cast<int>(r.integer("ranks_per_node", 1)),
                       .top_k = static_cast<int>(r.integer_or("top_k", 1, 1, 1 << 10)),
                       .bytes = column(r, "bytes"), .seconds = column(r, "us", micro)});
  for (ConfigTable& c : t.tables("collective")) {
    const std::string kind = c.one_of_or("kind", "all_to_all", {"all_to_all", "all_reduce", "send_receive"});
    p.collectives.push_back({.kind = nlohmann::json(kind).get<Collective>(),
                             .level = c.one_of_or("level", "host", {"host", "network"}),
                             .ranks = static_cast<int>(c.integer("ranks", 2)), .source = read_source(c),
                             .bytes = column(c, "bytes"), .seconds = column(c, "us", micro)});
  }
  if (t.has("datasheet")) p.datasheet = read_datasheet(t.table("datasheet"));
  t.finish();
  check(p, file_name);
  return p;
}

void to_json(nlohmann::json& j, const Link& l) {
  j = {{"level", l.level},
       {"source", l.source},
       {"latency_s", l.latency_s},
       {"bytes", l.bytes},
       {"bytes_per_s", l.bytes_per_s}};
  if (!l.p99_s.empty()) j["p99_s"] = l.p99_s;
  if (!l.max_s.empty()) j["max_s"] = l.max_s;
}

void from_json(const nlohmann::json& j, Link& l) {
  j.at("level").get_to(l.level);
  j.at("source").get_to(l.source);
  j.at("latency_s").get_to(l.latency_s);
  j.at("bytes").get_to(l.bytes);
  j.at("bytes_per_s").get_to(l.bytes_per_s);
  if (j.contains("p99_s")) j.at("p99_s").get_to(l.p99_s);
  if (j.contains("max_s")) j.at("max_s").get_to(l.max_s);
}

void to_json(nlohmann::json& j, const PlatformSpec& p) {
  j = {{"name", p.name},           {"device", p.device}, {"host", p.host},
       {"framework", p.framework}, {"links", p.links},   {"collectives", p.collectives}};
  if (!p.shared_links.empty()) j["shared_links"] = p.shared_links;
  if (!p.races.empty()) j["pattern_races"] = p.races;
  if (!p.datasheet.empty()) j["datasheet"] = p.datasheet;
}

void from_json(const nlohmann::json& j, PlatformSpec& p) {
  j.at("name").get_to(p.name);
  j.at("device").get_to(p.device);
  j.at("host").get_to(p.host);
  j.at("framework").get_to(p.framework);
  j.at("links").get_to(p.links);
  j.at("collectives").get_to(p.collectives);
  if (j.contains("shared_links")) j.at("shared_links").get_to(p.shared_links);
  if (j.contains("pattern_races")) j.at("pattern_races").get_to(p.races);
  if (j.contains("datasheet")) j.at("datasheet").get_to(p.datasheet);
}

namespace {

// What is in `given` and not in `known` is a key that nobody reads.
void refuse_unknown(const nlohmann::json& given, const nlohmann::json& known, const std::string& at,
                    const std::string& file) {
  if (given.is_object() && known.is_object())
    for (const auto& [key, value] : given.items()) {
      const std::string dotted = at.empty() ? key : at + "." + key;
      if (!known.contains(key)) throw ConfigError({.file = file, .key = dotted, .allowed = "unknown key"});
      refuse_unknown(value, known.at(key), dotted, file);
    }
  if (given.is_array() && known.is_array())
    for (std::size_t i = 0; i < given.size() && i < known.size(); ++i)
      refuse_unknown(given[i], known[i], fmt::format("{}[{}]", at, i), file);
}

}  // namespace

PlatformSpec parse_platform_json(const std::string& text, const std::string& file_name) {
  PlatformSpec p;
  try {
    const auto given = nlohmann::json::parse(text);
    p = given.get<PlatformSpec>();
    refuse_unknown(given, nlohmann::json(p), "", file_name);
  } catch (const nlohmann::json::exception& e) {
    throw ConfigError({.file = file_name, .allowed = fmt::format("not a platform in JSON: {}", json_words(e))});
  }
  check(p, file_name);
  return p;
}

PlatformSpec load_platform(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  return path.extension() == ".json" ? parse_platform_json(text, path.string()) : parse_platform(text, path.string());
}

namespace {

// Numbers print with six digits: a measurement has no more.
std::string list(const std::vector<double>& values, double unit = 1) {
  std::vector<std::string> out;
  for (double v : values) out.push_back(fmt::format("{:.6g}", v / unit));
  return fmt::format("[{}]", fmt::join(out, ", "));
}

template <class T>
std::string name(T value) {
  return nlohmann::json(value).template get<std::string>();
}

std::string heading(const char* table, const DType* dtype, int threads, Source source) {
  std::string out = fmt::format("\n[[{}]]\n", table);
  if (dtype) out += fmt::format("dtype = \"{}\"\n", name_of(*dtype));
  return out + fmt::format("threads = {}\nsource = \"{}\"\n", threads, name(source));
}

}  // namespace

std::string to_toml(const PlatformSpec& p) {
  const Device& d = p.device;
  std::string out = fmt::format("name = {}\n\n[device]\n", nlohmann::json(p.name).dump());
  out += fmt::format("name = {}\nkind = \"{}\"\nmemory_GiB = {:.6g}\nlaunch_us = {:.6g}\nlaunch_source = \"{}\"\n",
                     nlohmann::json(d.name).dump(), d.kind, d.memory_bytes / GiB, d.launch_s / micro,
                     name(d.launch_source));
  for (const Peak& c : d.peaks)
    out += fmt::format("\n[[device.peak]]\ndtype = \"{}\"\nsource = \"{}\"\nGFLOPps = {:.6g}\n", name_of(c.dtype),
                       name(c.source), c.flops_per_s / giga);
  for (const GemmCurve& c : d.gemm)
    out += heading("device.gemm", &c.dtype, c.threads, c.source) +
           fmt::format("m = {}\nn = {}\nk = {}\nGFLOPps = {}\n", list(c.m), list(c.n), list(c.k),
                       list(c.flops_per_s, giga));
  for (const GroupedGemmCurve& c : d.grouped_gemm)
    out += heading("device.grouped_gemm", &c.dtype, c.threads, c.source) +
           fmt::format("rows = {}\nn = {}\nk = {}\ngroups = {}\nGFLOPps = {}\n", list(c.rows), list(c.n), list(c.k),
                       list(c.groups), list(c.flops_per_s, giga));
  for (const AttentionCurve& c : d.attention)
    out += heading("device.attention", &c.dtype, c.threads, c.source) +
           fmt::format("sequence = {}\nheads = {}\nhead_dim = {}\nforward_GFLOPps = {}\nbackward_GFLOPps = {}\n",
                       list(c.sequence), list(c.heads), list(c.head_dim), list(c.forward_flops_per_s, giga),
                       list(c.backward_flops_per_s, giga));
  for (const MemoryCurve& c : d.memory)
    out += heading("device.memory", nullptr, c.threads, c.source) +
           fmt::format("use = \"{}\"\nbytes = {}\nGBps = {}\n", name(c.use), list(c.bytes), list(c.bytes_per_s, giga));
  const auto words = [](const std::vector<std::string>& of) { return nlohmann::json(of).dump(); };
  for (const SegmentTable& c : d.segments) {
    out += heading("device.segment", &c.dtype, c.threads, c.source) +
           fmt::format("model = {}\nsegment = {}\nlayer = {}\npass = {}\n", nlohmann::json(c.model).dump(), words(c.segment),
                       words(c.layer), words(c.pass));
    if (!c.tokens.empty()) out += fmt::format("tokens = {}\nexperts = {}\n", list(c.tokens), list(c.experts));
    out += fmt::format("factor = {}\n", list(c.factor));
    if (!c.load_cv.empty()) out += fmt::format("load_cv = {}\n", list(c.load_cv));
  }
  out += fmt::format("\n[host]\ncores = {}\nmemory_GiB = {:.6g}\nranks = {}\n", p.host.cores, p.host.memory_bytes / GiB,
                     p.host.ranks);
  if (p.host.nodes_per_group > 0) out += fmt::format("nodes_per_group = {}\n", p.host.nodes_per_group);
  if (p.host.per_machine > 1) out += fmt::format("per_machine = {}\n", p.host.per_machine);
  for (const BusyTable& b : p.host.busy) {
    out += heading("host.busy", nullptr, b.threads, b.source) +
           fmt::format("ranks = {}\nslow_down = {}\nhand_over_us = {}\n", list(b.ranks), list(b.slow_down),
                       list(b.hand_over_s, micro));
    if (!b.noise.empty()) out += fmt::format("noise = {}\n", list(b.noise));
  }
  if (!p.host.noise.factor.empty())
    out += fmt::format("\n[host.noise]\nsource = \"{}\"\nfactor = {}\n", name(p.host.noise.source), list(p.host.noise.factor));
  out += fmt::format("\n[framework]\nsource = \"{}\"\nbaseline_MiB = {:.6g}\ncommunication_core_share = {:.6g}\n",
                     name(p.framework.source), p.framework.baseline_bytes / MiB, p.framework.communication_core_share);
  for (const Link& l : p.links) {
    out += fmt::format("\n[[link]]\nlevel = \"{}\"\nsource = \"{}\"\nlatency_us = {:.6g}\nbytes = {}\nGBps = {}\n", l.level,
                       name(l.source), l.latency_s / micro, list(l.bytes), list(l.bytes_per_s, giga));
    if (!l.p99_s.empty()) out += fmt::format("p99_us = {}\n", list(l.p99_s, micro));
    if (!l.max_s.empty()) out += fmt::format("max_us = {}\n", list(l.max_s, micro));
  }
  for (const SharedLink& l : p.shared_links)
    out += fmt::format("\n[[shared_link]]\nlevel = \"{}\"\nsource = \"{}\"\nnodes = {}\nranks_per_node = {}\n"
                       "latency_us = {:.6g}\nmessage_us = {:.6g}\nwake_us = {:.6g}\nturn_us = {:.6g}\nGBps = {:.6g}\nalone_GBps = {:.6g}\n"
                       "partners = {}\nbucket_bytes = {:.6g}\nown_latency = {:.3g}\nblend = {:.3g}\ncards = {}\ncopy_GBps = {:.6g}\n"
                       "gather_us = {:.6g}\nresidual = {:.3g}\n",
                       l.level, name(l.source), l.nodes, l.ranks_per_node, l.latency_s / micro, l.message_s / micro,
                       l.wake_s / micro, l.turn_s < 0 ? -1 : l.turn_s / micro, l.bytes_per_s / giga, l.alone_bytes_per_s / giga, l.partners, l.bucket_bytes, l.own_latency, l.blend,
                       l.cards, l.copy_bytes_per_s / giga, l.gather_s / micro, l.residual);
  for (const PatternRace& r : p.races)
    out += fmt::format("\n[[pattern_race]]\npattern = \"{}\"\nsource = \"{}\"\nnodes = {}\nranks_per_node = {}\ntop_k = {}\n"
                       "bytes = {}\nus = {}\n",
                       r.pattern, name(r.source), r.nodes, r.ranks_per_node, r.top_k, list(r.bytes), list(r.seconds, micro));
  for (const CollectiveTable& c : p.collectives)
    out += fmt::format("\n[[collective]]\nkind = \"{}\"\nlevel = \"{}\"\nranks = {}\nsource = \"{}\"\nbytes = {}\nus = {}\n",
                       name(c.kind), c.level, c.ranks, name(c.source), list(c.bytes), list(c.seconds, micro));
  if (!p.datasheet.empty()) out += "\n" + to_toml(p.datasheet);
  return out;
}

void save_platform(const PlatformSpec& spec, const std::filesystem::path& path) {
  write_file_atomically(path, path.extension() == ".json" ? nlohmann::json(spec).dump(1) + "\n" : to_toml(spec));
}

}  // namespace trireme::platform
