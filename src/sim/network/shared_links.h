// Links that flows share fairly: at any time each of the flows on a link has an equal part of it (processor sharing,
// which max-min fairness is where that link is what limits them). Links are independent: a flow has work on each of its
// links, and ends when it has all of it done.
#pragma once
#include <utility>
#include <vector>

namespace trireme::sim {

class SharedLinks {
 public:
  explicit SharedLinks(int num_links);

  // A flow's work on a link from now on, in seconds alone on the link. Times never go back. O(log n).
  void add(double now_s, int link, double work_s, int flow);

  bool idle() const { return heap_.empty(); }
  // When the next work ends, if nothing is added before.
  double next_s() const { return links_[static_cast<std::size_t>(heap_.front())].next_s; }
  // Ends it; whose it was. O(log n).
  int end_next();

 private:
  using Work = std::pair<double, int>;  // end in the link's virtual time, flow
  struct Link {
    std::vector<Work> present;  // a heap, the first to end on top
    double now_s = 0;
    double got_s = 0;  // virtual time: the work that a flow present all along would have got
    double next_s = 0;
    int place = -1;  // in heap_
  };

  Link& link(int i) { return links_[static_cast<std::size_t>(i)]; }
  void reorder(int link);  // after its next_s has changed, or it has become idle or busy
  void up(std::size_t place);
  void down(std::size_t place);
  void set(std::size_t place, int link);

  std::vector<Link> links_;
  std::vector<int> heap_;  // busy links by next_s
};

}  // namespace trireme::sim
