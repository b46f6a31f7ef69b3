#include "sim/network/shared_links.h"

#include <algorithm>
#include <functional>

namespace trireme::sim {

SharedLinks::SharedLinks(int num_links) : links_(static_cast<std::size_t>(num_links)) {}

void SharedLinks::add(double now_s, int i, double work_s, int flow) {
  Link& l = link(i);
  if (!l.present.empty()) l.got_s += (now_s - l.now_s) / static_cast<double>(l.present.size());
  l.now_s = now_s;
  l.present.emplace_back(l.got_s + work_s, flow);
  std::push_heap(l.present.begin(), l.present.end(), std::greater<>());
  reorder(i);
}

int SharedLinks::end_next() {
  const int i = heap_.front();
  Link& l = link(i);
  l.now_s = l.next_s;
  l.got_s = l.present.front().first;
  const int flow = l.present.front().second;
  std::pop_heap(l.present.begin(), l.present.end(), std::greater<>());
  l.present.pop_back();
  reorder(i);
  return flow;
}

void SharedLinks::reorder(int i) {
  Link& l = link(i);
  if (l.present.empty()) {
    const auto place = static_cast<std::size_t>(l.place);
    l.place = -1;
    const int last = heap_.back();
    heap_.pop_back();
    if (last == i) return;
    set(place, last);
    up(place);
    down(static_cast<std::size_t>(link(last).place));
    return;
  }
  const double before_s = l.next_s;
  l.next_s = l.now_s + std::max(0.0, l.present.front().first - l.got_s) * static_cast<double>(l.present.size());
  if (l.place < 0) {
    heap_.push_back(i);
    up(heap_.size() - 1);
  } else if (l.next_s < before_s) {
    up(static_cast<std::size_t>(l.place));
  } else {
    down(static_cast<std::size_t>(l.place));
  }
}

void SharedLinks::set(std::size_t place, int i) {
  heap_[place] = i;
  link(i).place = static_cast<int>(place);
}

void SharedLinks::up(std::size_t place) {
  const int i = heap_[place];
  const double key = link(i).next_s;
  while (place > 0 && key < link(heap_[(place - 1) / 2]).next_s) {
    set(place, heap_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  set(place, i);
}

void SharedLinks::down(std::size_t place) {
  const int i = heap_[place];
  const double key = link(i).next_s;
  for (std::size_t child = 2 * place + 1; child < heap_.size(); child = 2 * place + 1) {
    if (child + 1 < heap_.size() && link(heap_[child + 1]).next_s < link(heap_[child]).next_s) ++child;
    if (key <= link(heap_[child]).next_s) break;
    set(place, heap_[child]);
    place = child;
  }
  set(place, i);
}

}  // namespace trireme::sim
