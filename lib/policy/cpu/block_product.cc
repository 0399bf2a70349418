#include "lib/policy/cpu/block_product.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstring>
#include <iterator>

#include "lib/policy/cpu/vector.h"

namespace buttress {
namespace {

constexpr int kVectors = kBlockRows / kLanes;

}  // namespace

void PackBlock(const Bf16* weight, std::int64_t rows, std::int64_t D, Bf16* block) {
  for (std::int64_t i = 0; i < D; i += 2) {
    for (std::int64_t c = 0; c < kBlockRows; ++c, block += 2) {
      block[0] = c < rows ? weight[c * D + i] : Bf16{0};
      block[1] = c < rows ? weight[c * D + i + 1] : Bf16{0};
    }
  }
}

BUTTRESS_KERNEL void PlainBlockProduct(const BlockProductArgs& a) {
  using Words = std::uint32_t __attribute__((vector_size(4 * kLanes)));
  for (std::int64_t r = 0; r < a.rows; ++r) {
    Lanes sums[kVectors] = {};
    for (std::int64_t i = 0; i < a.D; i += 2) {
      const float first = Get(a.x[r * a.D + i]);
      const float second = Get(a.x[r * a.D + i + 1]);
      for (int v = 0; v < kVectors; ++v) {
        Words pairs;
        std::memcpy(&pairs, a.block + i * kBlockRows + 2 * kLanes * v, sizeof pairs);
        sums[v] += first * __builtin_bit_cast(Lanes, pairs << 16);
        sums[v] += second * __builtin_bit_cast(Lanes, pairs & 0xFFFF0000u);
      }
    }
    for (int v = 0; v < kVectors; ++v) StoreLanes(sums[v], a.out + r * a.stride + kLanes * v);
  }
}

#if defined(__x86_64__)

namespace {

// The sums of so many rows fit into registers next to the weights, which are read once for them.
constexpr std::int64_t kMaxRows = 6;

template <int kRows>
__attribute__((target("avx512f,avx512bf16"))) void DotRows(const BlockProductArgs& a,
                                                           std::int64_t first) {
  __m512 sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
  const Bf16* x = a.x + first * a.D;
  for (std::int64_t i = 0; i < a.D; i += 2) {
    const Bf16* weights = a.block + i * kBlockRows;
    __m512bh pairs[kVectors];
    for (int v = 0; v < kVectors; ++v)
      pairs[v] = __builtin_bit_cast(__m512bh, _mm512_loadu_si512(weights + 2 * kLanes * v));
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      std::int32_t pair;
      std::memcpy(&pair, x + r * a.D + i, sizeof pair);
      const auto both = __builtin_bit_cast(__m512bh, _mm512_set1_epi32(pair));
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], both, pairs[v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v)
      _mm512_storeu_ps(a.out + (first + r) * a.stride + kLanes * v, sums[r][v]);
  }
}

void DotBlockProduct(const BlockProductArgs& args) {
  constexpr decltype(&DotRows<1>) kDotRows[] = {DotRows<1>, DotRows<2>, DotRows<3>,
                                                DotRows<4>, DotRows<5>, DotRows<6>};
  static_assert(std::size(kDotRows) == kMaxRows);
  for (std::int64_t tiles = (args.rows + kMaxRows - 1) / kMaxRows, first = 0; tiles > 0; --tiles) {
    const std::int64_t count = (args.rows - first + tiles - 1) / tiles;
    kDotRows[count - 1](args, first);
    first += count;
  }
}

}  // namespace

void BlockProduct(const BlockProductArgs& args) {
  static const bool has_dot = __builtin_cpu_supports("avx512bf16");
  return has_dot ? DotBlockProduct(args) : PlainBlockProduct(args);
}

#else

void BlockProduct(const BlockProductArgs& args) { PlainBlockProduct(args); }

#endif

}  // namespace buttress
