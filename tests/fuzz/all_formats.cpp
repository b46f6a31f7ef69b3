#include "fuzz/format.h"

namespace trireme::fuzz {

std::vector<Format> all_formats() {
  std::vector<Format> out = planning_formats();
  for (Format& f : run_folder_formats()) out.push_back(std::move(f));
#if TRIREME_WITH_TORCH
  for (auto&& list : {training_formats(), tokenizer_formats(), resumed_formats()})
    for (const Format& f : list) out.push_back(f);
#endif
  return out;
}

}  // namespace trireme::fuzz
