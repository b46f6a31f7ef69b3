// One error that every rank finds by itself (a bad run file, say) is told by the first of them.
#pragma once
#include <chrono>
#include <string>

namespace c10d {
class Store;
}

namespace trireme::comm {

// Whether nobody has told this text before. Once a rank. Throws what the store throws.
bool first_to_tell(c10d::Store& store, const std::string& text);
// For the rank that serves the store: until all `world` ranks have asked.
void wait_until_asked(c10d::Store& store, int world, std::chrono::milliseconds limit);

}  // namespace trireme::comm
