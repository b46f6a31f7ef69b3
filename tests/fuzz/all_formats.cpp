#include "fuzz/format.h"

namespace trireme::fuzz {

std::vector<Format> all_formats() {
  std::vector<Format> out = planning_formats();
  for (Format& f : run_folder_formats()) out.push_back(std::move(f));
#if TRIREME_WITH_TORCH
  for (Format& f : training_formats()) out.push_back(std::move(f));
#endif
  return out;
}

}  // namespace trireme::fuzz
