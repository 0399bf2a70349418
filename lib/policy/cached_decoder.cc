// Shapes: R rows, D width, H query heads, K key-value heads, C values of a head, F width of the
// MLP, V vocabulary.
#include "lib/policy/cached_decoder.h"

#include <torch/types.h>

#include <algorithm>

#include "lib/policy/attention.h"
#include "lib/policy/cached_attention.h"
#include "lib/policy/cpu/short_attention.h"
#include "lib/policy/norm.h"
#include "lib/policy/swiglu.h"

namespace buttress {
namespace {

constexpr std::int64_t kTileRows = 32;

// Returns the lengths of the sequences that the rows consist of.
std::vector<std::int64_t> LengthsOf(std::span<const CacheRow> rows) {
  std::vector<std::int64_t> lengths;
  for (const CacheRow& row : rows) {
    if (row.position == 0) lengths.push_back(0);
    ++lengths.back();
  }
  return lengths;
}

}  // namespace

struct CachedDecoder::Batch {
  std::span<const CacheRow> rows;
  at::Tensor positions_R;
  std::int64_t end = 0;                  // one past the largest position
  const PackedLayout* layout = nullptr;  // null to attend to the cache
};

CachedDecoder::CachedDecoder(Transformer& model, bool batch_invariant)
    : model_(model),
      config_(model.config()),
      device_(model.weights().embedding_VD.device()),
      tile_rows_(batch_invariant ? kTileRows : 0),
      rope_(config_.head_dim, config_.rope_theta, device_) {
  RepackWeights();
}

void CachedDecoder::RepackWeights() {
  const at::NoGradGuard no_grad;
  const DecoderWeights& weights = model_.weights();
  layers_.clear();
  for (const LayerWeights& w : weights.layers) {
    layers_.push_back(
        {w.input_norm_D,
         PackedLinear({w.q_weight, w.k_weight, w.v_weight}, {w.q_bias, w.k_bias, w.v_bias}),
         PackedLinear({w.o_weight}, {}), w.mlp_norm_D,
         PackedLinear({w.gate_weight, w.up_weight}, {}), PackedLinear({w.down_weight}, {})});
  }
  head_.emplace(std::vector<at::Tensor>{weights.head_VD}, std::vector<at::Tensor>{});
}

at::Tensor CachedDecoder::Run(std::span<const CacheRow> rows, AttendTo attend, KvCache& cache) {
  const at::NoGradGuard no_grad;
  const std::int64_t count = static_cast<std::int64_t>(rows.size());
  at::Tensor tokens = at::empty({count}, at::TensorOptions(at::kInt));
  at::Tensor positions = at::empty({count}, at::TensorOptions(at::kLong));
  Batch batch{rows, {}, 0, nullptr};
  for (std::int64_t r = 0; r < count; ++r) {
    const CacheRow& row = rows[static_cast<std::size_t>(r)];
    tokens.mutable_data_ptr<std::int32_t>()[r] = row.token;
    positions.mutable_data_ptr<std::int64_t>()[r] = row.position;
    batch.end = std::max(batch.end, row.position + 1);
  }
  batch.positions_R = positions.to(device_);
  PackedLayout layout;
  if (attend == AttendTo::kRows && tile_rows_ == 0) {
    layout = LayOut(LengthsOf(rows), {}, device_);
    batch.layout = &layout;
  }
  const HeadShape heads = {config_.heads, config_.kv_heads, config_.head_dim};
  at::Tensor hidden_RD = model_.weights().embedding_VD.index_select(0, tokens.to(device_));
  if (batch.layout != nullptr && !UsesShortAttention(layout, hidden_RD, heads))
    layout.rectangles = LayOutRectangles(layout);
  for (std::size_t i = 0; i < layers_.size(); ++i) hidden_RD = RunLayer(i, batch, hidden_RD, cache);
  return hidden_RD;
}

at::Tensor CachedDecoder::RunLayer(std::size_t index, const Batch& batch,
                                   const at::Tensor& hidden_RD, KvCache& cache) {
  const Layer& layer = layers_[index];
  const HeadShape heads = {config_.heads, config_.kv_heads, config_.head_dim};
  const at::Tensor projected =
      layer.qkv.Apply(RmsNorm(hidden_RD, layer.input_norm_D, config_.rms_norm_eps), tile_rows_);
  const at::Tensor qkv = rope_.Rotate(projected, heads.H + heads.K, batch.positions_R, batch.end);
  StoreRows(batch.rows, qkv, heads, cache, index);
  const at::Tensor attended = batch.layout != nullptr
                                  ? CausalAttention(*batch.layout, qkv, heads)
                                  : CachedAttention(batch.rows, qkv, heads, cache, index);
  const at::Tensor middle_RD = layer.out.Apply(attended, tile_rows_).add_(hidden_RD);
  const at::Tensor gate_up =
      layer.gate_up.Apply(RmsNorm(middle_RD, layer.mlp_norm_D, config_.rms_norm_eps), tile_rows_);
  return layer.down.Apply(SwiGlu(gate_up), tile_rows_).add_(middle_RD);
}

at::Tensor CachedDecoder::Logits(const at::Tensor& hidden_RD) {
  const at::NoGradGuard no_grad;
  const at::Tensor normed = RmsNorm(hidden_RD, model_.weights().final_norm_D, config_.rms_norm_eps);
  return head_->Apply(normed, tile_rows_).to(at::kCPU);
}

}  // namespace buttress
