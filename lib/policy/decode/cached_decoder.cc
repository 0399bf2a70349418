// Shapes: R rows, D width, V vocabulary.
#include "lib/policy/decode/cached_decoder.h"

#include <torch/types.h>

#include <algorithm>
#include <optional>

#include "lib/policy/adapters/adapted_products.h"
#include "lib/policy/cpu/for_rows.h"
#include "lib/policy/cpu/packed_linear.h"
#include "lib/policy/decode/cached_attention.h"
#include "lib/policy/layers/attention.h"
#include "lib/policy/layers/block.h"
#include "lib/policy/layers/embedding_and_head.h"
#include "lib/policy/layers/norm.h"

namespace buttress {
namespace {

// Rows whose keys and values are stored in the cache. They attend to the cache, or to one another.
class CachedRows final : public BlockRows {
 public:
  // `layout` is that of the rows if they attend to one another, else null.
  CachedRows(std::span<const CacheRow> rows, at::Tensor positions_R, const PackedLayout* layout,
             KvCache& cache)
      : rows_(rows), positions_R_(std::move(positions_R)), layout_(layout), cache_(cache) {
    for (const CacheRow& row : rows) end_ = std::max(end_, row.position + 1);
  }

  const at::Tensor& positions_N() const override { return positions_R_; }

  std::int64_t end() const override { return end_; }

  at::Tensor Attend(const AttentionSpec& spec, std::size_t layer, const at::Tensor& qkv) override {
    StoreRows(rows_, qkv, spec, cache_, layer);
    return layout_ != nullptr ? CausalAttention(*layout_, qkv, spec)
                              : CachedAttention(rows_, qkv, spec, cache_, layer);
  }

 private:
  std::span<const CacheRow> rows_;
  at::Tensor positions_R_;
  const PackedLayout* layout_;
  KvCache& cache_;
  std::int64_t end_ = 0;
};

// The parameters of a model as they are.
class ModelParts final : public WeightParts {
 public:
  explicit ModelParts(const Transformer& model) : model_(model) {}

  at::Tensor Embedding() const override { return model_.weights().embedding_VD; }

  LayerWeights Block(std::size_t layer) const override { return model_.weights().layers[layer]; }

  at::Tensor FinalNorm() const override { return model_.weights().final_norm_D; }

  at::Tensor Head() const override {
    return model_.config().tie_word_embeddings ? at::Tensor() : model_.weights().head_VD;
  }

 private:
  const Transformer& model_;
};

// Copies, so that the buffer of the block can be freed.
LayerWeights NormsOf(const LayerWeights& block) {
  const auto copy = [](const at::Tensor& norm) {
    return norm.defined() ? norm.detach().clone() : norm;
  };
  LayerWeights norms;
  norms.input_norm_D = copy(block.input_norm_D);
  norms.q_norm_C = copy(block.q_norm_C);
  norms.k_norm_C = copy(block.k_norm_C);
  norms.attention_out_norm_D = copy(block.attention_out_norm_D);
  norms.mlp_norm_D = copy(block.mlp_norm_D);
  norms.mlp_out_norm_D = copy(block.mlp_out_norm_D);
  return norms;
}

Adapter CopyOf(const Adapter& adapter, at::Device device) {
  if (!adapter.a_rI.defined()) return {};
  return {adapter.a_rI.detach().clone().to(device), adapter.b_Or.detach().clone().to(device)};
}

}  // namespace

struct CachedDecoder::Products final : BlockProducts {
  explicit Products(const LayerWeights& w)
      : qkv({w.q_weight, w.k_weight, w.v_weight},
            w.q_bias.defined() ? std::vector<at::Tensor>{w.q_bias, w.k_bias, w.v_bias}
                               : std::vector<at::Tensor>{}),
        out({w.o_weight},
            w.o_bias.defined() ? std::vector<at::Tensor>{w.o_bias} : std::vector<at::Tensor>{}) {
    if (w.router_weight.defined())
      router.emplace(std::vector<at::Tensor>{w.router_weight.to(at::kFloat)},
                     std::vector<at::Tensor>{});
    for (const MlpWeights& mlp : w.mlps) {
      gate_up.emplace_back(std::vector<at::Tensor>{mlp.gate_weight, mlp.up_weight},
                           std::vector<at::Tensor>{});
      down.emplace_back(std::vector<at::Tensor>{mlp.down_weight}, std::vector<at::Tensor>{});
    }
  }

  at::Tensor Qkv(const at::Tensor& x) const override { return qkv.Apply(x); }

  at::Tensor Out(const at::Tensor& x) const override { return out.Apply(x); }

  at::Tensor Router(const at::Tensor& x) const override { return router->Apply(x.to(at::kFloat)); }

  at::Tensor GateUp(std::size_t mlp, const at::Tensor& x) const override {
    return gate_up[mlp].Apply(x);
  }

  at::Tensor Down(std::size_t mlp, const at::Tensor& x) const override {
    return down[mlp].Apply(x);
  }

  PackedLinear qkv;
  PackedLinear out;
  std::optional<PackedLinear> router;
  std::vector<PackedLinear> gate_up;  // by MLP
  std::vector<PackedLinear> down;     // by MLP
};

struct CachedDecoder::Weights {
  at::Tensor embedding_VD;
  std::vector<LayerWeights> norms;  // by layer; the matrices and biases are undefined
  std::vector<Products> products;   // by layer
  at::Tensor final_norm_D;
  std::optional<PackedHead> head;
};

CachedDecoder::CachedDecoder(ModelConfig config, at::ScalarType dtype, at::Device device)
    : config_(std::move(config)),
      dtype_(dtype),
      device_(device),
      ropes_(RopeTables(config_, device_)),
      adapters_(config_.blocks.size()) {}

CachedDecoder::CachedDecoder(const Transformer& model)
    : CachedDecoder(model.config(), model.weights().embedding_VD.scalar_type(),
                    model.weights().embedding_VD.device()) {
  SetWeights(model);
}

CachedDecoder::~CachedDecoder() = default;

void CachedDecoder::SetWeights(const Transformer& model) {
  SetWeights(ModelParts(model));
  if (model.adapters() != nullptr) SetAdapters(*model.adapters());
}

void CachedDecoder::SetWeights(const WeightParts& parts) {
  weights_.reset();
  weights_ = Pack(parts);
}

std::shared_ptr<const CachedDecoder::Weights> CachedDecoder::Pack(const WeightParts& parts) const {
  const at::NoGradGuard no_grad;
  auto weights = std::make_shared<Weights>();
  weights->products.reserve(config_.blocks.size());
  for (std::size_t i = 0; i < config_.blocks.size(); ++i) {
    const LayerWeights block = parts.Block(i);
    weights->norms.push_back(NormsOf(block));
    weights->products.emplace_back(block);
  }
  weights->final_norm_D = parts.FinalNorm().clone();
  weights->embedding_VD = parts.Embedding().detach();
  const at::Tensor head_VD = parts.Head();
  weights->head.emplace(head_VD.defined() ? head_VD : weights->embedding_VD);
  return weights;
}

void CachedDecoder::SetAdapters(const Adapters& adapters) {
  const at::NoGradGuard no_grad;
  const auto copy = [&](const Adapter& adapter) { return CopyOf(adapter, device_); };
  std::vector<LayerAdapters> copies;
  for (const LayerAdapters& layer : adapters.layers) {
    copies.push_back({copy(layer.q), copy(layer.k), copy(layer.v), copy(layer.o), copy(layer.gate),
                      copy(layer.up), copy(layer.down)});
  }
  adapters_ = std::move(copies);
  adapter_scale_ = adapters.config.scale();
}

at::Tensor CachedDecoder::Run(std::span<const CacheRow> rows,
                              const std::vector<std::int64_t>& lengths, KvCache& cache) {
  TORCH_CHECK(weights_ != nullptr, "the decoder has no weights; the last update of them failed");
  const at::NoGradGuard no_grad;
  const std::int64_t count = static_cast<std::int64_t>(rows.size());
  at::Tensor tokens = at::empty({count}, at::TensorOptions(at::kInt));
  at::Tensor positions = at::empty({count}, at::TensorOptions(at::kLong));
  for (std::int64_t r = 0; r < count; ++r) {
    const CacheRow& row = rows[static_cast<std::size_t>(r)];
    tokens.mutable_data_ptr<std::int32_t>()[r] = row.token;
    positions.mutable_data_ptr<std::int64_t>()[r] = row.position;
  }
  at::Tensor hidden_RD =
      ScaleEmbeddings(config_, weights_->embedding_VD.index_select(0, tokens.to(device_)));
  const bool packed = !lengths.empty() && !HasRowKernels(hidden_RD);
  PackedLayout layout;
  if (packed) {
    layout = LayOut(lengths, {}, device_);
    PrepareAttention(layout, config_.blocks, hidden_RD);
  }
  CachedRows batch(rows, positions.to(device_), packed ? &layout : nullptr, cache);
  for (std::size_t i = 0; i < config_.blocks.size(); ++i) {
    const AdaptedProducts adapted(weights_->products[i], adapters_[i], adapter_scale_,
                                  /*row_wise=*/true);
    hidden_RD =
        BlockForward(config_.blocks[i], i, weights_->norms[i], adapted, ropes_, batch, hidden_RD);
  }
  return hidden_RD;
}

at::Tensor CachedDecoder::Logits(const at::Tensor& hidden_RD) {
  const at::NoGradGuard no_grad;
  const at::Tensor normed = RmsNorm(hidden_RD, weights_->final_norm_D, config_.final_norm);
  return CapLogits(weights_->head->Logits(normed), config_.logit_cap).to(at::kCPU);
}

}  // namespace buttress
