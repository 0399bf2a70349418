// Row kernels for CPUs, where a LibTorch operator for each elementary step would cost more than the arithmetic. Torch-free; each is compiled
// for several instruction sets and the right one is taken at run time. A row's result depends on nothing but that row. Arithmetic is in
// float32 whatever the storage. Not parallel: callers split rows over threads.
#pragma once

#include <cstdint>

namespace buttress {

// Storage of a bfloat16, laid out as c10::BFloat16.
struct Bf16 {
  std::uint16_t bits;
};

// Positions of a block of the paged cache: one AVX-512 register of scores.
inline constexpr std::int64_t kCacheBlock = 16;

// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight; rows of D values. `scale` (one per row, may be null) keeps 1 / sqrt(...).
void RmsNormRows(const float* x, const float* weight, float* out, float* scale, std::int64_t rows, std::int64_t D, float eps);
void RmsNormRows(const Bf16* x, const Bf16* weight, Bf16* out, float* scale, std::int64_t rows, std::int64_t D, float eps);

// out[r] = silu(gate[r]) * up[r]; rows of F values, `stride` apart in gate and up, F apart in out.
void SwiGluRows(const float* gate, const float* up, float* out, std::int64_t rows, std::int64_t F, std::int64_t stride);
void SwiGluRows(const Bf16* gate, const Bf16* up, Bf16* out, std::int64_t rows, std::int64_t F, std::int64_t stride);

// Rotates heads of C values: out[i] = x[i] * cos[i] + x[(i + C/2) % C] * sin[i] (sin carries the sign). Rows of x are `stride` apart, of
// out heads * C; cos and sin are tables with a row of C values for each position.
struct RopeRowsArgs {
  const std::int64_t* positions;
  const float* cos;
  const float* sin;
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t C;
  std::int64_t stride;
};
void RopeRows(const float* x, float* out, const RopeRowsArgs& args);
void RopeRows(const Bf16* x, Bf16* out, const RopeRowsArgs& args);

// A paged cache of one layer: K key-value heads, C values each.
//   keys   [blocks, K, C, kCacheBlock]: a block's positions lie side by side, so that one query value meets sixteen keys at once
//   values [blocks, K, kCacheBlock, C]
template <class T>
struct PagedLayer {
  T* keys;
  T* values;
  std::int64_t K;
  std::int64_t C;
};

// Puts one row's keys and values [K, C] at `position` of the sequence with `blocks`.
void StoreRow(const PagedLayer<float>& cache, const std::int32_t* blocks, std::int64_t position, const float* k, const float* v);
void StoreRow(const PagedLayer<Bf16>& cache, const std::int32_t* blocks, std::int64_t position, const Bf16* k, const Bf16* v);

// out [H, C] = softmax(q k^T / sqrt(C)) v over the first `length` positions of the sequence with `blocks`; H = K * groups. `scratch` holds
// AttendScratch(C, length) floats.
void AttendRow(const PagedLayer<float>& cache, const std::int32_t* blocks, std::int64_t length, std::int64_t groups, const float* q,
               float* out, float* scratch);
void AttendRow(const PagedLayer<Bf16>& cache, const std::int32_t* blocks, std::int64_t length, std::int64_t groups, const Bf16* q,
               Bf16* out, float* scratch);
std::int64_t AttendScratch(std::int64_t C, std::int64_t length);

// weights[i] = exp((logits[i] - max) * scale), and their sum over each run of kSumRun values in `sums` [ceil(V / kSumRun)]. Returns max; a
// logit that is not a number, or +infinity, gives NaN sums.
inline constexpr std::int64_t kSumRun = 256;
float ExpRow(const float* logits, float scale, float* weights, double* sums, std::int64_t V);

// Largest value, NaN if any is.
float MaxOf(const float* values, std::int64_t count);

void ToFloat(const Bf16* from, float* to, std::int64_t count);

}  // namespace buttress
