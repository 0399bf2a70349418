// The policy network: a decoder with its parameters.
//
// Shapes: B sequences, N packed tokens (the tokens of all sequences one after another, without
// padding), D width, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/policy/adapters/adapters.h"
#include "lib/policy/layers/embedding_and_head.h"
#include "lib/policy/layers/rope.h"
#include "lib/policy/model_config.h"
#include "lib/policy/weights/decoder_weights.h"
#include "lib/policy/weights/packed_layout.h"
#include "lib/policy/weights/parameter_unit.h"
#include "lib/weights/weight_files.h"

namespace buttress {

class BlockProducts;
class ExpertPeers;

// The device of a model: a CPU, or GPU `index`.
struct ModelDevice {
  bool cuda = false;
  int index = 0;
};

// Returns the device, which then is the one that allocations without a device use.
// kFailedPrecondition if no GPU is visible.
Result<at::Device> OpenDevice(ModelDevice device);

at::ScalarType ScalarTypeOf(ModelDtype dtype);

// Makes whole units for a model of whose weights the process holds a part (UnitShare::weights).
class UnitGatherer {
 public:
  virtual ~UnitGatherer() = default;

  // Makes the weights of `unit` whole until Release has been called as often as Gather. Every
  // process of the share makes the same calls in the same order. Throws StatusError.
  virtual void Gather(std::size_t unit) = 0;
  virtual void Release(std::size_t unit) = 0;

  // Begins a Gather that follows soon.
  virtual void Prefetch(std::size_t unit) = 0;
};

// Keeps the weights of a unit whole. Costs nothing where they always are.
class HeldUnit {
 public:
  HeldUnit(UnitGatherer* gatherer, std::size_t unit) : gatherer_(gatherer), unit_(unit) {
    if (gatherer_ != nullptr) gatherer_->Gather(unit_);
  }

  HeldUnit(HeldUnit&& other) noexcept
      : gatherer_(std::exchange(other.gatherer_, nullptr)), unit_(other.unit_) {}

  HeldUnit& operator=(HeldUnit&&) = delete;

  ~HeldUnit() {
    if (gatherer_ != nullptr) gatherer_->Release(unit_);
  }

 private:
  UnitGatherer* gatherer_;
  std::size_t unit_;
};

// Not thread-safe. LibTorch's exceptions (c10::Error) pass through.
class Transformer {
 public:
  // Loads a Hugging Face folder into parameters of `dtype`. kDataLoss names a missing, unknown or
  // misshapen tensor; kInvalidArgument a field of config.json that is not supported. At most one
  // unit is in memory besides what `share` says. A model of UnitShare::stored gathers its units
  // itself (StoredUnits).
  static Result<std::unique_ptr<Transformer>> Load(const std::string& folder, ModelDtype dtype,
                                                   ModelDevice device, const UnitShare& share = {});

  // Draws random weights from N(0, initializer_range^2), which `seed` determines. Norms multiply by
  // 1, biases are 0.
  static Result<std::unique_ptr<Transformer>> Random(const ModelConfig& config, ModelDtype dtype,
                                                     ModelDevice device, std::uint64_t seed,
                                                     const UnitShare& share = {});

  const ModelConfig& config() const { return config_; }

  // The parameters by role. The tensors stay the same for the life of the model; their values
  // change, and are there while their unit is held.
  const DecoderWeights& weights() const { return weights_; }

  // Returns the hidden states [N, D] after the last norm, of packed sequences whose lengths sum to
  // N. Differentiable.
  //
  // A sequence may continue an earlier one, so that completions of one prompt compute the prompt
  // once: prefixes[b] is the index of the earlier sequence, or -1. Its positions follow those of
  // the prefix, and its rows attend to all of the prefix. Continuations follow their prefix
  // directly and have no continuations of their own. An empty `prefixes` stands for -1 throughout.
  at::Tensor Hidden(const at::Tensor& tokens_N, std::span<const std::int64_t> lengths,
                    std::span<const std::int64_t> prefixes = {});

  // The steps of Hidden, for a caller that runs them one by one: RunEmbedding, RunBlock for each of
  // blocks(), RunNorm. Differentiable. EmbeddingGradientOf is the derivative of RunEmbedding
  // without a tensor of the size of the table.
  PackedLayout LayOutTokens(const at::Tensor& tokens_N, std::span<const std::int64_t> lengths,
                            std::span<const std::int64_t> prefixes) const;
  at::Tensor RunEmbedding(const at::Tensor& tokens_N) const;
  EmbeddingGradient EmbeddingGradientOf(const at::Tensor& tokens_N,
                                        const at::Tensor& grad_ND) const;
  at::Tensor RunBlock(std::size_t block, const PackedLayout& layout, const at::Tensor& hidden_ND);
  at::Tensor RunNorm(const at::Tensor& hidden_ND) const;

  // The two halves of RunBlock, for a caller that holds the block.
  at::Tensor RunAttention(std::size_t block, const PackedLayout& layout,
                          const at::Tensor& hidden_ND);
  at::Tensor RunMlp(std::size_t block, const at::Tensor& middle_ND) const;

  std::size_t blocks() const { return weights_.layers.size(); }

  // The units that the steps above and Logits read. The steps hold them themselves; a backward pass
  // holds what its graph has kept.
  std::size_t unit_of_block(std::size_t block) const { return unit_of_block_[block]; }

  std::size_t unit_of_norm() const { return unit_of_block_.back(); }

  std::size_t unit_of_head() const { return config_.tie_word_embeddings ? 0 : unit_of_norm(); }

  // REQUIRES: the model has adapters.
  std::size_t unit_of_adapters(std::size_t block) const { return unit_of_norm() + 1 + block; }

  // The experts of a block that this process has where they stay divided (UnitShare::experts):
  // leaves [F, D] or [D, F], views of the part of unit unit_of_block(block) + 1.
  const std::vector<ParameterPiece>& own_experts(std::size_t block) const {
    return own_experts_[block];
  }

  HeldUnit Hold(std::size_t unit) const { return {gatherer_, unit}; }

  void Prefetch(std::size_t unit) const {
    if (gatherer_ != nullptr) gatherer_->Prefetch(unit);
  }

  // REQUIRES: `gatherer` outlives the calls that need weights. Null where all weights are held.
  void GatherBy(UnitGatherer* gatherer) { gatherer_ = gatherer; }

  // REQUIRES: UnitShare::experts; `peers` outlives the passes.
  void ExchangeBy(ExpertPeers* peers) { peers_ = peers; }

  const UnitShare& share() const { return share_; }

  // Makes passes give the hidden states and log-probs of a CachedDecoder with the same weights, bit
  // by bit: products, attention and softmax go row by row, as those of a decoder do. On CPUs.
  void ComputeRowWise() { row_wise_ = true; }

  bool row_wise() const { return row_wise_; }

  // Returns the logits [N, V] of hidden states [N, D], in float32. Differentiable for float32
  // parameters.
  at::Tensor Logits(const at::Tensor& hidden_ND) const;

  // Makes `adapters`, which fit the model, what is trained instead of its parameters, and adds them
  // to its products from here on. With `keep`, a frozen copy of them is kept, whole on every
  // process, and added while the trained ones are not in use (AdaptersOff).
  void Adapt(Adapters adapters, bool keep = false);

  // Null without adapters. The tensors stay the same as those of the parameters do.
  const Adapters* adapters() const { return adapters_ ? &*adapters_ : nullptr; }

  // Whether RunBlock adds the trained adapters to its products, if there are any (AdaptersOff).
  void UseAdapters(bool use) { use_adapters_ = use; }

  // Adds adapters to the weights (MergeAdapters). REQUIRES: the model has no adapters, and the
  // process holds all weights.
  void Merge(const Adapters& adapters);

  // What is trained, published and kept in checkpoints, with the names there, in a fixed order: the
  // parameters, or the adapters of a model that has them. They are leaf tensors that require grad.
  // A tied head is not listed.
  const NamedTensors& parameters() const { return parameters_; }

  // The values that this process holds: parameters(), or by unit its parts.
  NamedTensors held_values() const;

  // All parameters by unit: the embedding, the blocks, each with its experts behind it where they
  // stay divided, the head, and then the adapters of the blocks. Those that are trainable hold the
  // tensors of parameters() in the same order.
  const std::vector<ParameterUnit>& units() const { return units_; }

 private:
  Transformer(ModelConfig config, DecoderWeights weights, at::Device device,
              const UnitShare& share);

  // Calls `fill` with the index of each parameter and the tensor to fill.
  void FillParameters(const std::function<void(std::size_t, const at::Tensor&)>& fill);

  void KeepPart(const ParameterUnit& unit) const;
  void FindOwnExperts();

  // Calls `use` with the products of a block, with those of its adapters if they are in use.
  using ProductsUser = std::function<at::Tensor(const BlockProducts& products)>;
  at::Tensor WithProducts(std::size_t block, const ProductsUser& use) const;

  const ModelConfig config_;
  DecoderWeights weights_;
  const UnitShare share_;
  NamedTensors parameters_;
  std::vector<ParameterUnit> units_;
  std::vector<std::size_t> unit_of_block_;  // and behind the last one that of the norm
  std::vector<LayerWeights> used_;          // by block: what a pass reads
  std::vector<std::vector<ParameterPiece>> own_experts_;  // by block
  UnitGatherer* gatherer_ = nullptr;
  ExpertPeers* peers_ = nullptr;
  std::unique_ptr<UnitGatherer> stored_units_;  // of a model of UnitShare::stored
  std::optional<Adapters> adapters_, start_adapters_;
  bool use_adapters_ = true;
  bool row_wise_ = false;
  std::vector<RopeTable> ropes_;
  const at::Device device_;
};

// Writes a Hugging Face folder that transformers and vLLM load: the weights (DivideWeights), and
// config.json, generation_config.json and the tokenizer files of `source_folder`. Of a model with
// adapters writes the adapters alone, as a folder of peft that names `source_folder`. At most one
// unit is in memory besides what the process holds. Where the weights are divided, every process of
// the share calls it, and those that do not write only give their parts.
Status SaveModelFolder(const Transformer& model, const std::string& source_folder,
                       const std::string& folder, bool writes = true);

// Returns copies in host memory of those of Transformer::parameters() whose name `keeps` chooses.
// Where the weights are divided, every process of the share calls it, whatever it keeps.
NamedTensors CopyToHost(const Transformer& model,
                        const std::function<bool(const std::string&)>& keeps);

// The tensors as a table of safetensors files.
std::vector<SafetensorsWriter::Declared> DeclaredTensors(const NamedTensors& tensors);

// Returns what gives the bytes of `tensors`, which are on the CPU and contiguous, as they are when
// it is called.
BytesOfTensor BytesByName(const NamedTensors& tensors);

// Returns the bytes of a parameter in the layout of safetensors. The view is valid as long as
// `storage`, which holds a contiguous tensor on the CPU.
std::string_view TensorBytes(const at::Tensor& tensor, at::Tensor& storage);

// Returns "F32" or "BF16". REQUIRES: `tensor` is float32 or bfloat16.
std::string SafetensorsDtype(const at::Tensor& tensor);

}  // namespace buttress
