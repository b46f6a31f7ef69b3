// A debugging aid: what this rank issued on a group, in order, to be compared with the other members. Messages between
// two ranks (send, receive) are not recorded: only their own two ends must agree on them.
#pragma once
#include <string>
#include <vector>

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Store;
}

namespace trireme::comm {

class Group;

class IssueOrder {
 public:
  IssueOrder(c10::intrusive_ptr<c10d::Store> store, std::string prefix);

  void record(const std::string& kind, const std::string& operation);
  const std::vector<std::string>& issued() const { return issued_; }

 private:
  friend void check_issue_order(Group& group);
  c10::intrusive_ptr<c10d::Store> store_;
  std::string prefix_;
  std::vector<std::string> issued_;  // since the last check
  int num_checks_ = 0;
};

// Compares, through the store and so whatever state the group is in, what all members issued since the last check.
// Every member must call it. RuntimeFailure names the first difference. Does nothing where orders are not recorded.
void check_issue_order(Group& group);

}  // namespace trireme::comm
