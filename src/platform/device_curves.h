// A device's curves as functions, for one dtype and thread count: what the simulator asks.
// Where the platform has no curve for the dtype, its curve for another one is scaled by size (half the bytes: twice as
// fast) ; where none for the thread count, the nearest count's, scaled by the ratio of threads. Both are said in `notes`.
#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/log_surface.h"
#include "platform/platform_spec.h"

namespace trireme::platform {

class DeviceCurves {
 public:
  // ConfigError when the platform has no peak at all; a missing grouped or attention curve falls back on the gemm curve.
  DeviceCurves(const Device& device, DType dtype, int threads);

  FlopsPerSecond gemm(double m, double n, double k) const;
  FlopsPerSecond grouped_gemm(double rows_per_group, double n, double k, double groups) const;
  FlopsPerSecond attention(double sequence, double heads, double head_dim, bool backward) const;
  BytesPerSecond memory(MemoryUse use, double bytes) const;
  // Of a whole segment over its operators' sum (SegmentTable), for a micro-batch of `tokens` on a rank with `experts` experts
  // of a layer: between measured sizes as LogSurface has it; where none was measured, of `shared` that of `experts`,
  // else 1.
  double segment_factor(const std::string& segment, const std::string& layer, const std::string& pass, double tokens,
                        double experts) const;
  // Of rows by expert of a micro-batch of so many tokens, standard deviation over mean: where the routers' start was measured.
  double load_cv(double tokens) const;
  Seconds launch() const { return launch_; }
  FlopsPerSecond peak() const { return peak_; }  // of the whole device

  bool measured() const { return measured_; }                     // every curve that it holds
  const std::vector<std::string>& notes() const { return notes_; }  // substitutions made

 private:
  // `scale` multiplies the surface's value: how a curve of another dtype or thread count stands in.
  struct Scaled {
    LogSurface surface;
    double scale = 1;
  };
  template <class Curve>
  const Curve* pick(const std::vector<Curve>& curves, DType dtype, int threads, const char* what, double& scale);
  void take_segments(const SegmentTable& table, int threads);

  Scaled gemm_, grouped_gemm_, attention_forward_, attention_backward_;
  Scaled memory_[3];
  std::map<std::array<std::string, 3>, LogSurface> segments_;  // by segment, layer, pass; of the nearest thread count
  LogSurface load_cv_;  // by tokens
  Seconds launch_;
  FlopsPerSecond peak_;
  bool measured_ = true;
  std::vector<std::string> notes_;
};

}  // namespace trireme::platform
