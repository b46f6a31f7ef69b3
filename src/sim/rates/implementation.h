// Calls that ask many times know which implementation they ask: no virtual call per operator.
#pragma once
#include "sim/rates/probed_rates.h"
#include "sim/rates/sheet_rates.h"

namespace trireme::sim {

// call(rates) with the type that they are of; both are final.
template <class Call>
decltype(auto) with_implementation(const Rates& rates, Call&& call) {
  if (rates.kind() == Rates::Kind::sheet) return call(static_cast<const SheetRates&>(rates));
  return call(static_cast<const ProbedRates&>(rates));
}

}  // namespace trireme::sim
