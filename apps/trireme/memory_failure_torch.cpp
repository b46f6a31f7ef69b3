#include "trireme/memory_failure.h"

#include "nn/out_of_memory.h"

namespace trireme::apps {

void name_memory_holders(int rank, const std::vector<plan::MemoryPart>& expected, const std::function<void()>& work) {
  const auto fail = [&](RuntimeFailure::Detail detail) {
    if (const std::string parts = parts_text(expected); !parts.empty())
      detail.reason += fmt::format("; at its peak the plan expects of it: {}", parts);
    throw RuntimeFailure(std::move(detail));
  };
  try {
    work();
  } catch (const nn::OutOfMemory& failure) {
    fail(failure.detail());
  } catch (const std::exception& error) {
    const auto reason = nn::out_of_memory(error);
    if (!reason) throw;
    fail({.rank = rank, .operation = "outside of a step: model, data or checkpoint", .reason = *reason});
  }
}

void tell_out_of_memory(const std::string& operation, const std::function<void()>& work) {
  try {
    work();
  } catch (const RuntimeFailure&) {
    throw;
  } catch (const std::exception& error) {
    if (const auto reason = nn::out_of_memory(error)) throw RuntimeFailure({.operation = operation, .reason = *reason});
    throw;
  }
}

}  // namespace trireme::apps
