#include <fmt/format.h>

#include "plan/all_to_all/pattern.h"

namespace trireme::plan {
namespace {

std::string to_text(const Members& m) {
  if (m.count == 1) return fmt::format("{}", m.first);
  if (m.stride == 1) return fmt::format("{}..{}", m.first, m.last());
  return fmt::format("{}..{}/{}", m.first, m.last(), m.stride);
}

}  // namespace

std::string to_text(const Pattern& p) {
  std::string out = fmt::format("{}, {} members{}\n", p.name, p.size, p.flow == Flow::combine ? ", combine" : "");
  for (const Phase& phase : p.phases) {
    out += fmt::format("phase {}", phase.name);
    for (std::size_t i = 0; i < phase.after.size(); ++i)
      out += fmt::format("{}{}", i == 0 ? ", after " : ", ", p.phases[static_cast<std::size_t>(phase.after[i])].name);
    if (phase.in_flight > 0) out += fmt::format(", in flight {}", phase.in_flight);
    out += "\n";
    for (const Transfer& t : phase.transfers) {
      out += fmt::format("  {} -> {} :", t.from, t.to);
      for (const Parcel& parcel : t.parcels) {
        out += fmt::format(" {}>{}", to_text(parcel.sources), to_text(parcel.destinations));
        if (parcel.rows != Rows::each) out += parcel.rows == Rows::once ? ":once" : ":all";
      }
      out += "\n";
    }
  }
  return out;
}

}  // namespace trireme::plan
