// Plain loops that the compiler vectorises, in one version for each instruction set; the loader picks one. Not for
// headers of other folders.
#pragma once
#include <bit>
#include <cstdint>

// On a function that holds loops: compiled for AVX-512, AVX2 and the baseline. Helpers that it calls must be
// TRIREME_INLINE to be compiled with it. Sanitizers run before the loader can resolve such functions.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define TRIREME_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRIREME_CLONES
#endif
#define TRIREME_INLINE inline __attribute__((always_inline))

namespace trireme::nn::cpu {

// e^x within 2 units in the last place; zero below e^-69.7 (float) and e^-699.7 (double), so that products with it stay
// clear of denormal numbers, which are a hundred times slower. After Cephes (Moshier): x = n ln 2 + r, a polynomial
// (float) or rational function (double) of r, and 2^n by its exponent bits.
TRIREME_INLINE float exponential(float x) {
  x = x < 88.3762626647949f ? x : 88.3762626647949f;
  x = x > -150.0f ? x : -150.0f;
  const float shifted = x * 1.44269504088896341f + 12582912.0f;  // 1.5 * 2^23: rounds to an integer in the low bits
  const float n = shifted - 12582912.0f;
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(12582912.0f) + 127;
  exponent &= -static_cast<std::int32_t>(exponent > 26);  // 2^-101 and below become zero
  return p * std::bit_cast<float>(exponent << 23);
}

TRIREME_INLINE double exponential(double x) {
  x = x < 709.0 ? x : 709.0;
  x = x > -800.0 ? x : -800.0;
  const double shifted = x * 1.4426950408889634073599 + 6755399441055744.0;  // 1.5 * 2^52
  const double n = shifted - 6755399441055744.0;
  double r = x - n * 6.93145751953125e-1;
  r = r - n * 1.42860682030941723212e-6;
  const double rr = r * r;
  const double p = r * ((1.26177193074810590878e-4 * rr + 3.02994407707441961300e-2) * rr + 9.99999999999999999910e-1);
  const double q =
      ((3.00198505138664455042e-6 * rr + 2.52448340349684104192e-3) * rr + 2.27265548208155028766e-1) * rr +
      2.00000000000000000009;
  std::int64_t exponent = std::bit_cast<std::int64_t>(shifted) - std::bit_cast<std::int64_t>(6755399441055744.0) + 1023;
  exponent &= -static_cast<std::int64_t>(exponent > 13);
  return (1.0 + 2.0 * (p / (q - p))) * std::bit_cast<double>(exponent << 52);
}

}  // namespace trireme::nn::cpu
