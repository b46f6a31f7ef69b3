#include "comm/issue_order.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/errors.h"
#include "comm/group.h"

namespace trireme::comm {

IssueOrder::IssueOrder(c10::intrusive_ptr<c10d::Store> store, std::string prefix)
    : store_(std::move(store)), prefix_(std::move(prefix)) {}

void IssueOrder::record(const std::string& kind, const std::string& operation) {
  issued_.push_back(fmt::format("{} {}", kind, operation));
}

void check_issue_order(Group& group) {
  if (group.issue_order == nullptr) return;
  IssueOrder& order = *group.issue_order;
  const auto key = [&](int member) { return fmt::format("{}/{}/{}", order.prefix_, order.num_checks_, member); };
  order.store_->set(key(group.rank()), nlohmann::json(order.issued_).dump());
  // Every member compares with member 0, so that all of them fail in the same way.
  std::vector<std::vector<std::string>> issued;
  for (int member = 0; member < group.size(); ++member) {
    try {
      issued.push_back(nlohmann::json::parse(order.store_->get_to_str(key(member))).get<std::vector<std::string>>());
    } catch (const std::exception&) {
      group.fail("check of the issue order", member, "did not come to the check");
    }
  }
  ++order.num_checks_;
  order.issued_.clear();
  const auto text = [](const std::vector<std::string>& list, std::size_t i) {
    return i < list.size() ? fmt::format("'{}'", list[i]) : std::string("nothing");
  };
  for (int member = 1; member < group.size(); ++member) {
    const auto& a = issued.front();
    const auto& b = issued[static_cast<std::size_t>(member)];
    for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      if (i < a.size() && i < b.size() && a[i] == b[i]) continue;
      throw RuntimeFailure({.rank = group.members()[static_cast<std::size_t>(member)],
                            .operation = "check of the issue order",
                            .group = group.describe(),
                            .reason = fmt::format("issued {} as number {}, where rank {} issued {}", text(b, i), i,
                                                  group.members().front(), text(a, i))});
    }
  }
}

}  // namespace trireme::comm
