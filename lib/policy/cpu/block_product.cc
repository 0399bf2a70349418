#include "lib/policy/cpu/block_product.h"

#if defined(__x86_64__)
#include <asm/prctl.h>
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cstring>
#include <iterator>

#include "lib/policy/cpu/vector.h"

namespace buttress {
namespace {

constexpr int kVectors = kBlockRows / kLanes;

// The sums of so many rows fit into registers next to the weights, which are read once for them.
constexpr std::int64_t kMaxRows = 6;

// Rows of a matrix tile of AMX, and the inputs of a row in bfloat16 that it holds.
constexpr std::int64_t kTileRows = 16;
constexpr std::int64_t kTileDepth = 32;

// The sums of a few rows.
struct Sums {
  alignas(64) float values[2 * kTileRows][kBlockRows];
};

template <class T, class Out>
BUTTRESS_INLINE void WriteBody(const Sums& sums, const BlockProductArgs<T, Out>& a,
                               std::int64_t first, std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* from = sums.values[r];
    Out* to = a.out + (first + r) * a.stride;
    if (a.bias != nullptr) {
#pragma omp simd
      for (std::int64_t c = 0; c < a.columns; ++c) Put(to[c], from[c] + Get(a.bias[c]));
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < a.columns; ++c) Put(to[c], from[c]);
    }
  }
}

// Write the sums of `rows` rows from `first` on.
BUTTRESS_KERNEL void WriteSums(const Sums& sums, const BlockProductArgs<float, float>& a,
                               std::int64_t first, std::int64_t rows) {
  WriteBody(sums, a, first, rows);
}

BUTTRESS_KERNEL void WriteSums(const Sums& sums, const BlockProductArgs<Bf16, Bf16>& a,
                               std::int64_t first, std::int64_t rows) {
  WriteBody(sums, a, first, rows);
}

BUTTRESS_KERNEL void WriteSums(const Sums& sums, const BlockProductArgs<Bf16, float>& a,
                               std::int64_t first, std::int64_t rows) {
  WriteBody(sums, a, first, rows);
}

BUTTRESS_INLINE void SumRow(const float* x, const float* block, std::int64_t D, float* to) {
  Lanes sums[kVectors] = {};
  Lanes weights;
  for (std::int64_t i = 0; i < D; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      LoadLanes(block + i * kBlockRows + kLanes * v, weights);
      sums[v] += x[i] * weights;
    }
  }
  for (int v = 0; v < kVectors; ++v) StoreLanes(sums[v], to + kLanes * v);
}

BUTTRESS_INLINE void SumRow(const Bf16* x, const Bf16* block, std::int64_t D, float* to) {
  using Words = std::uint32_t __attribute__((vector_size(4 * kLanes)));
  Lanes sums[kVectors] = {};
  for (std::int64_t i = 0; i < D; i += 2) {
    const float first = Get(x[i]);
    const float second = Get(x[i + 1]);
    for (int v = 0; v < kVectors; ++v) {
      Words pairs;
      std::memcpy(&pairs, block + i * kBlockRows + 2 * kLanes * v, sizeof pairs);
      sums[v] += first * __builtin_bit_cast(Lanes, pairs << 16);
      sums[v] += second * __builtin_bit_cast(Lanes, pairs & 0xFFFF0000u);
    }
  }
  for (int v = 0; v < kVectors; ++v) StoreLanes(sums[v], to + kLanes * v);
}

template <class T, class Out>
BUTTRESS_INLINE void PlainBody(const BlockProductArgs<T, Out>& a) {
  Sums sums;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    SumRow(a.x + r * a.D, a.block, a.D, sums.values[0]);
    WriteSums(sums, a, r, 1);
  }
}

}  // namespace

void PackBlock(const float* weight, std::int64_t rows, std::int64_t D, float* block) {
  for (std::int64_t i = 0; i < D; ++i, block += kBlockRows) {
    for (std::int64_t c = 0; c < rows; ++c) block[c] = weight[c * D + i];
    std::fill(block + rows, block + kBlockRows, 0.0f);
  }
}

void PackBlock(const Bf16* weight, std::int64_t rows, std::int64_t D, Bf16* block) {
  for (std::int64_t i = 0; i < D; i += 2, block += 2 * kBlockRows) {
    for (std::int64_t c = 0; c < rows; ++c)
      std::memcpy(block + 2 * c, weight + c * D + i, 2 * sizeof(Bf16));
    std::fill(block + 2 * rows, block + 2 * kBlockRows, Bf16{0});
  }
}

BUTTRESS_KERNEL void PlainBlockProduct(const BlockProductArgs<float, float>& args) {
  PlainBody(args);
}

BUTTRESS_KERNEL void PlainBlockProduct(const BlockProductArgs<Bf16, Bf16>& args) {
  PlainBody(args);
}

BUTTRESS_KERNEL void PlainBlockProduct(const BlockProductArgs<Bf16, float>& args) {
  PlainBody(args);
}

#if defined(__x86_64__)

namespace {

template <int kRows>
__attribute__((target("avx512f"))) void SumRows(const float* x, const float* block, std::int64_t D,
                                                Sums& to) {
  __m512 sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < D; ++i) {
    __m512 weights[kVectors];
    for (int v = 0; v < kVectors; ++v)
      weights[v] = _mm512_loadu_ps(block + i * kBlockRows + kLanes * v);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m512 value = _mm512_set1_ps(x[r * D + i]);
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] = _mm512_fmadd_ps(value, weights[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) _mm512_store_ps(to.values[r] + kLanes * v, sums[r][v]);
}

template <int kRows>
__attribute__((target("avx512f,avx512bf16"))) void SumRows(const Bf16* x, const Bf16* block,
                                                           std::int64_t D, Sums& to) {
  __m512 sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < D; i += 2) {
    const Bf16* weights = block + i * kBlockRows;
    __m512bh pairs[kVectors];
    for (int v = 0; v < kVectors; ++v)
      pairs[v] = __builtin_bit_cast(__m512bh, _mm512_loadu_si512(weights + 2 * kLanes * v));
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      std::int32_t pair;
      std::memcpy(&pair, x + r * D + i, sizeof pair);
      const auto both = __builtin_bit_cast(__m512bh, _mm512_set1_epi32(pair));
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], both, pairs[v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) _mm512_store_ps(to.values[r] + kLanes * v, sums[r][v]);
}

// Divides the rows into tiles of about equal size.
template <class T, class Out>
void WideBlockProduct(const BlockProductArgs<T, Out>& a) {
  using Kernel = void (*)(const T*, const T*, std::int64_t, Sums&);
  static constexpr Kernel kSumRows[] = {SumRows<1>, SumRows<2>, SumRows<3>,
                                        SumRows<4>, SumRows<5>, SumRows<6>};
  static_assert(std::size(kSumRows) == kMaxRows);
  Sums sums;
  for (std::int64_t tiles = (a.rows + kMaxRows - 1) / kMaxRows, first = 0; tiles > 0; --tiles) {
    const std::int64_t count = (a.rows - first + tiles - 1) / tiles;
    kSumRows[count - 1](a.x + first * a.D, a.block, a.D, sums);
    WriteSums(sums, a, first, count);
    first += count;
  }
}

// The operand of LDTILECFG.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t unused[15] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {};
};

#define BUTTRESS_AMX __attribute__((target("amx-tile,amx-bf16")))

// Sums of at most kTileRows rows: tiles 0 to 3 for 16 values each, 4 for x, 6 for weights.
BUTTRESS_AMX void SumOneTile(const Bf16* x, const Bf16* block, std::int64_t D, Sums& to) {
  constexpr int kBlockStride = 4 * kBlockRows;
  constexpr int kSumStride = sizeof to.values[0];
  const std::int64_t stride = 2 * D;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t i = 0; i < D; i += kTileDepth) {
    const Bf16* weights = block + i * kBlockRows;
    _tile_loadd(4, x + i, stride);
    _tile_loadd(6, weights, kBlockStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, weights + 2 * kLanes, kBlockStride);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(6, weights + 4 * kLanes, kBlockStride);
    _tile_dpbf16ps(2, 4, 6);
    _tile_loadd(7, weights + 6 * kLanes, kBlockStride);
    _tile_dpbf16ps(3, 4, 7);
  }
  _tile_stored(0, to.values[0], kSumStride);
  _tile_stored(1, to.values[0] + kLanes, kSumStride);
  _tile_stored(2, to.values[0] + 2 * kLanes, kSumStride);
  _tile_stored(3, to.values[0] + 3 * kLanes, kSumStride);
}

// Sums of more rows, for half of the values at a time: tiles 0 and 1 for the first kTileRows rows,
// 2 and 3 for the others.
BUTTRESS_AMX void SumTwoTiles(const Bf16* x, const Bf16* block, std::int64_t D, Sums& to) {
  constexpr int kBlockStride = 4 * kBlockRows;
  constexpr int kSumStride = sizeof to.values[0];
  const std::int64_t stride = 2 * D;
  for (std::int64_t c = 0; c < kBlockRows; c += 2 * kLanes) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (std::int64_t i = 0; i < D; i += kTileDepth) {
      const Bf16* weights = block + i * kBlockRows + 2 * c;
      _tile_loadd(4, x + i, stride);
      _tile_loadd(6, weights, kBlockStride);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, weights + 2 * kLanes, kBlockStride);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, x + kTileRows * D + i, stride);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, to.values[0] + c, kSumStride);
    _tile_stored(1, to.values[0] + c + kLanes, kSumStride);
    _tile_stored(2, to.values[kTileRows] + c, kSumStride);
    _tile_stored(3, to.values[kTileRows] + c + kLanes, kSumStride);
  }
}

template <class Out>
BUTTRESS_AMX void TiledBlockProduct(const BlockProductArgs<Bf16, Out>& a) {
  Sums sums;
  for (std::int64_t first = 0; first < a.rows; first += 2 * kTileRows) {
    const std::int64_t rows = std::min(2 * kTileRows, a.rows - first);
    TileShapes shapes;
    const auto of_first = static_cast<std::uint8_t>(std::min(rows, kTileRows));
    const auto of_second = static_cast<std::uint8_t>(rows > kTileRows ? rows - kTileRows : 1);
    for (const int tile : {0, 1, 4}) shapes.rows[tile] = of_first;
    for (const int tile : {2, 3}) shapes.rows[tile] = rows > kTileRows ? of_second : of_first;
    shapes.rows[5] = of_second;
    for (const int tile : {6, 7}) shapes.rows[tile] = kTileRows;
    _tile_loadconfig(&shapes);
    const Bf16* x = a.x + first * a.D;
    rows > kTileRows ? SumTwoTiles(x, a.block, a.D, sums) : SumOneTile(x, a.block, a.D, sums);
    WriteSums(sums, a, first, rows);
  }
  _tile_release();
}

// Asks the kernel for the registers of AMX, which a process does not have from the start.
bool MayUseTiles() {
  constexpr int kTileData = 18;  // XFEATURE_XTILEDATA
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  const bool has_tiles = (edx & bit_AMX_BF16) != 0 && (edx & bit_AMX_TILE) != 0;
  return has_tiles && ::syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, kTileData) == 0;
}

// The choice depends on the width alone, so that all rows of a product have one kernel.
template <class Out>
void ProductOfBf16(const BlockProductArgs<Bf16, Out>& args) {
  static const bool tiled = MayUseTiles();
  static const bool wide = __builtin_cpu_supports("avx512bf16");
  if (tiled && args.D % kTileDepth == 0) return TiledBlockProduct(args);
  wide ? WideBlockProduct(args) : PlainBlockProduct(args);
}

}  // namespace

void BlockProduct(const BlockProductArgs<float, float>& args) {
  static const bool wide = __builtin_cpu_supports("avx512f");
  wide ? WideBlockProduct(args) : PlainBlockProduct(args);
}

void BlockProduct(const BlockProductArgs<Bf16, Bf16>& args) { ProductOfBf16(args); }

void BlockProduct(const BlockProductArgs<Bf16, float>& args) { ProductOfBf16(args); }

#else

void BlockProduct(const BlockProductArgs<float, float>& args) { PlainBlockProduct(args); }

void BlockProduct(const BlockProductArgs<Bf16, Bf16>& args) { PlainBlockProduct(args); }

void BlockProduct(const BlockProductArgs<Bf16, float>& args) { PlainBlockProduct(args); }

#endif

}  // namespace buttress
