// MPI_Alltoallv on the same tokens as `trireme probe --all-to-all` and timed by the same rule (comm/timed_batches.h): a
// sample is a batch of repetitions behind one barrier, a repetition's time the slowest rank's. A JSON line a size.
//
//   mpicxx.openmpi -O2 -std=c++20 -Isrc bench/all_to_all/mpi/alltoallv.cpp src/plan/all_to_all/drawn_tokens.cpp
//       src/base/rng.cpp src/base/processor_time.cpp
//   a.out BYTES[,BYTES] SAMPLES BATCH_SECONDS
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "base/processor_time.h"
#include "plan/all_to_all/drawn_tokens.h"

namespace {

double reduced(double value, MPI_Op op) {
  double out = 0;
  MPI_Allreduce(&value, &out, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
  return out;
}

class Exchange {
 public:
  Exchange(int rank, int size, double bytes_per_pair) {
    const trireme::plan::TokenDraw draw{.members = size, .bytes_per_pair = bytes_per_pair};
    const trireme::plan::DrawnTokens drawn = trireme::plan::draw_tokens(draw);
    const auto count = [&](int from, int to) {
      int rows = 0;
      for (const auto& slots : drawn.experts[static_cast<std::size_t>(from)])
        rows += static_cast<int>(std::count_if(slots.begin(), slots.end(),
                                               [&](int expert) { return expert / draw.per_member() == to; }));
      return rows * static_cast<int>(drawn.row_bytes);
    };
    for (int other = 0; other < size; ++other) {
      sent_.push_back(count(rank, other));
      received_.push_back(count(other, rank));
    }
    out_.assign(place(sent_, sent_at_), static_cast<char>(rank));
    in_.resize(place(received_, received_at_));
  }

  void run() {
    MPI_Alltoallv(out_.data(), sent_.data(), sent_at_.data(), MPI_BYTE, in_.data(), received_.data(), received_at_.data(),
                  MPI_BYTE, MPI_COMM_WORLD);
  }

  bool right() const {
    for (std::size_t from = 0; from < received_.size(); ++from)
      for (int i = 0; i < received_[from]; ++i)
        if (in_[static_cast<std::size_t>(received_at_[from] + i)] != static_cast<char>(from)) return false;
    return true;
  }

 private:
  static std::size_t place(const std::vector<int>& counts, std::vector<int>& at) {
    at.resize(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), at.begin(), 0);
    return static_cast<std::size_t>(at.back() + counts.back());
  }
  std::vector<int> sent_, received_, sent_at_, received_at_;
  std::vector<char> out_, in_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 4) {
    if (rank == 0) std::fprintf(stderr, "alltoallv BYTES[,BYTES] SAMPLES BATCH_SECONDS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int num_samples = std::atoi(argv[2]);
  const double batch_s = std::atof(argv[3]);
  std::stringstream sizes(argv[1]);
  for (std::string text; std::getline(sizes, text, ',');) {
    Exchange exchange(rank, size, std::atof(text.c_str()));
    exchange.run();
    if (reduced(exchange.right() ? 1 : 0, MPI_MIN) == 0) {
      if (rank == 0) std::fprintf(stderr, "alltoallv: wrong bytes arrived\n");
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const auto timed = [&](int times) {
      const double begin = MPI_Wtime();
      for (int i = 0; i < times; ++i) exchange.run();
      return MPI_Wtime() - begin;
    };
    const double one_s = reduced(timed(1), MPI_MAX);
    const int in_batch = static_cast<int>(std::clamp(std::ceil(batch_s / std::max(one_s, 1e-9)), 1.0, 100.0));
    std::vector<double> samples;
    double wall_s = 0, processor_s = 0;
    for (int i = 0; i < num_samples; ++i) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double before = trireme::processor_seconds();
      const double mine_s = timed(in_batch);
      const double used_s = trireme::processor_seconds() - before;
      const double slowest_s = reduced(mine_s, MPI_MAX);
      processor_s += reduced(used_s, MPI_SUM);
      wall_s += slowest_s;
      samples.push_back(slowest_s / in_batch);
    }
    std::sort(samples.begin(), samples.end());
    const std::size_t n = samples.size();
    if (rank == 0)
      std::printf("{\"bytes_per_pair\": %s, \"median_s\": %.9g, \"max_s\": %.9g, \"samples\": %zu, \"busy_cores\": %.3f}\n",
                  text.c_str(), (samples[(n - 1) / 2] + samples[n / 2]) / 2, samples.back(), n, processor_s / wall_s);
    std::fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
