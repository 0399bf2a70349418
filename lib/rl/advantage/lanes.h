// Sums over a group's numbers, eight at a time, for loops over groups that are compiled for several
// instruction sets (BUTTRESS_KERNEL; the right one is taken at run time). Sums have eight lanes on
// every instruction set and products are not fused with them (CMakeLists.txt), so a result does not
// depend on the machine.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

// Inlined into whatever kernel calls it, to be compiled for its instruction set.
#define BUTTRESS_INLINE [[gnu::always_inline]] inline

// Sanitizers come into being after the dynamic linker has chosen.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define BUTTRESS_KERNEL \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BUTTRESS_KERNEL
#endif

namespace buttress {

inline constexpr std::size_t kLanes = 8;

// Arithmetic on it is elementwise.
using Lanes = double __attribute__((vector_size(kLanes * sizeof(double))));

// The same in memory, where it may stand anywhere.
using LanesInMemory =
    double __attribute__((vector_size(kLanes * sizeof(double)), aligned(alignof(double))));

BUTTRESS_INLINE void Load(const double* from, Lanes& lanes) {
  lanes = *reinterpret_cast<const LanesInMemory*>(from);
}

// `condition` ? a : b without a branch, for conditions that the processor cannot predict.
BUTTRESS_INLINE double Select(bool condition, double a, double b) {
  const std::uint64_t mask = 0 - static_cast<std::uint64_t>(condition);
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(a) & mask) |
                               (std::bit_cast<std::uint64_t>(b) & ~mask));
}

// Sum of the lanes, by halves.
BUTTRESS_INLINE double Fold(const Lanes& x) {
  const auto four =
      __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
  const auto two =
      __builtin_shufflevector(four, four, 0, 1) + __builtin_shufflevector(four, four, 2, 3);
  return two[0] + two[1];
}

// Sum of f(values[i]), f applied to eight at a time and to single ones: f(const auto& x) -> the
// same type.
template <class F>
BUTTRESS_INLINE double SumOf(std::span<const double> values, const F& f) {
  Lanes lanes = {};
  Lanes x;
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    Load(&values[i], x);
    lanes += f(x);
  }
  double rest = 0;
  for (; i < values.size(); ++i) rest += f(values[i]);
  return Fold(lanes) + rest;
}

// Sums over tokens: value i counts lengths[i] times.
struct TokenSums {
  double tokens = 0;    // sum of lengths
  double weighted = 0;  // sum of lengths[i] * f(values[i])
};

template <class F>
BUTTRESS_INLINE TokenSums SumTokens(std::span<const double> values,
                                    std::span<const std::int32_t> lengths, const F& f) {
  using Lengths = std::int32_t __attribute__((vector_size(kLanes * sizeof(std::int32_t))));
  Lanes tokens = {};
  Lanes weighted = {};
  Lanes x;
  Lengths t;
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    Load(&values[i], x);
    std::memcpy(&t, &lengths[i], sizeof t);
    const Lanes times = __builtin_convertvector(t, Lanes);
    tokens += times;
    weighted += times * f(x);
  }
  TokenSums rest;
  for (; i < values.size(); ++i) {
    rest.tokens += lengths[i];
    rest.weighted += lengths[i] * f(values[i]);
  }
  return {Fold(tokens) + rest.tokens, Fold(weighted) + rest.weighted};
}

// out[i] = f(values[i]); f as above. `out` may be `values`.
template <class F>
BUTTRESS_INLINE void Map(std::span<const double> values, const F& f, double* out) {
  Lanes x;
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    Load(&values[i], x);
    x = f(x);
    *reinterpret_cast<LanesInMemory*>(out + i) = x;
  }
  for (; i < values.size(); ++i) out[i] = f(values[i]);
}

struct SumAndSpread {
  double sum = 0;
  bool equal = true;  // no two of them differ; NaN differs from itself
};

// In one pass. REQUIRES: values is not empty.
BUTTRESS_INLINE SumAndSpread SumAndCompare(std::span<const double> values) {
  using Mask = long long __attribute__((vector_size(kLanes * sizeof(long long))));
  const double first = values[0];
  Lanes lanes = {};
  Mask differ = {};
  Lanes x;
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    Load(&values[i], x);
    lanes += x;
    differ |= x != first;
  }
  double rest = 0;
  bool rest_differs = false;
  for (; i < values.size(); ++i) {
    rest += values[i];
    rest_differs |= values[i] != first;
  }
  const auto four = __builtin_shufflevector(differ, differ, 0, 1, 2, 3) |
                    __builtin_shufflevector(differ, differ, 4, 5, 6, 7);
  const auto two =
      __builtin_shufflevector(four, four, 0, 1) | __builtin_shufflevector(four, four, 2, 3);
  return {Fold(lanes) + rest, (two[0] | two[1]) == 0 && !rest_differs};
}

// True for fewer than two.
BUTTRESS_INLINE bool AllEqual(std::span<const double> values) {
  return values.empty() || SumAndCompare(values).equal;
}

}  // namespace buttress
