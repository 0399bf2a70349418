#include "lib/policy/adapters/adapters.h"

#include <c10/util/StringUtil.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "lib/base/text/random.h"

namespace buttress {
namespace {

struct Matrix {
  LoraTarget target;
  const char* name;  // in a block
  Adapter LayerAdapters::*adapter;
};

constexpr Matrix kMatrices[] = {
    {LoraTarget::kQ, "self_attn.q_proj", &LayerAdapters::q},
    {LoraTarget::kK, "self_attn.k_proj", &LayerAdapters::k},
    {LoraTarget::kV, "self_attn.v_proj", &LayerAdapters::v},
    {LoraTarget::kO, "self_attn.o_proj", &LayerAdapters::o},
    {LoraTarget::kGate, "mlp.gate_proj", &LayerAdapters::gate},
    {LoraTarget::kUp, "mlp.up_proj", &LayerAdapters::up},
    {LoraTarget::kDown, "mlp.down_proj", &LayerAdapters::down},
};

// Of a block that has the matrix.
BlockTensor WeightOf(const Matrix& matrix, const BlockSpec& spec) {
  const std::vector<BlockTensor> block = BlockTensors(spec);
  const auto weight =
      std::ranges::find(block, std::string(matrix.name) + ".weight", &BlockTensor::name);
  TORCH_CHECK(weight != block.end(), "a block has no ", matrix.name);
  return *weight;
}

}  // namespace

std::vector<AdapterTensor> AdapterTensors(const BlockSpec& spec, const LoraConfig& lora) {
  std::vector<AdapterTensor> list;
  for (const Matrix& matrix : kMatrices) {
    if (!lora.has(matrix.target)) continue;
    const BlockTensor weight = WeightOf(matrix, spec);
    const auto role = [adapter = matrix.adapter](at::Tensor Adapter::*tensor) {
      return [=](LayerAdapters& layer) -> at::Tensor& { return layer.*adapter.*tensor; };
    };
    const std::string name = matrix.name;
    list.push_back({name + ".lora_A.weight", role(&Adapter::a_rI), {lora.rank, weight.shape[1]}});
    list.push_back({name + ".lora_B.weight", role(&Adapter::b_Or), {weight.shape[0], lora.rank}});
  }
  return list;
}

Status CheckTargets(const LoraConfig& lora, const ModelConfig& model) {
  for (const Matrix& matrix : kMatrices) {
    const bool of_mlp = std::string_view(matrix.name).starts_with("mlp.");
    const bool mixture = std::ranges::any_of(
        model.blocks, [](const BlockSpec& spec) { return spec.experts.count > 0; });
    if (!of_mlp || !mixture || !lora.has(matrix.target)) continue;
    return InvalidArgument(c10::str(
        "the targets of LoRA include ", ChoiceName(matrix.target), ", but the MLPs of ",
        model.architecture,
        " are experts, which have no adapters; set the targets [q_proj, k_proj, v_proj, o_proj]"));
  }
  return OkStatus();
}

Adapters NoAdapters(const LoraConfig& lora, const ModelConfig& model) {
  return {lora, std::vector<LayerAdapters>(model.blocks.size())};
}

Adapters DrawnAdapters(const LoraConfig& lora, const ModelConfig& model, std::uint64_t seed) {
  Adapters adapters = NoAdapters(lora, model);
  const std::uint64_t key = MixSeed(seed, HashText("adapters"));
  std::uint64_t stream = 0;
  for (std::size_t layer = 0; layer < adapters.layers.size(); ++layer) {
    for (const AdapterTensor& tensor : AdapterTensors(model.blocks[layer], lora)) {
      const at::Tensor values = at::zeros(tensor.shape, at::kFloat);
      if (tensor.name.ends_with("lora_A.weight")) {
        RandomStream random({key, stream++});
        const double bound = 1 / std::sqrt(static_cast<double>(tensor.shape[1]));
        float* data = values.data_ptr<float>();
        for (std::int64_t i = 0; i < values.numel(); ++i)
          data[i] = static_cast<float>((2 * random.Uniform() - 1) * bound);
      }
      tensor.role(adapters.layers[layer]) = values;
    }
  }
  return adapters;
}

std::string AdapterPrefix(std::size_t layer) {
  return "base_model.model.model.layers." + std::to_string(layer) + ".";
}

std::vector<std::pair<std::string, at::Tensor>> NamedAdapters(const Adapters& adapters,
                                                              const ModelConfig& model) {
  std::vector<std::pair<std::string, at::Tensor>> list;
  for (std::size_t i = 0; i < adapters.layers.size(); ++i) {
    LayerAdapters layer = adapters.layers[i];
    for (const AdapterTensor& tensor : AdapterTensors(model.blocks[i], adapters.config))
      list.emplace_back(AdapterPrefix(i) + tensor.name, tensor.role(layer));
  }
  return list;
}

void MergeAdapters(const Adapters& adapters, const ModelConfig& model, DecoderWeights& weights) {
  const at::NoGradGuard no_grad;
  const double scale = adapters.config.scale();
  for (std::size_t i = 0; i < adapters.layers.size(); ++i) {
    for (const Matrix& matrix : kMatrices) {
      const Adapter& adapter = adapters.layers[i].*matrix.adapter;
      if (!adapter.a_rI.defined()) continue;
      const at::Tensor weight = WeightOf(matrix, model.blocks[i]).role(weights.layers[i]);
      const auto factor = [&](const at::Tensor& x) { return x.to(weight.device()); };
      weight.copy_(
          at::addmm(weight.to(at::kFloat), factor(adapter.b_Or), factor(adapter.a_rI), 1, scale));
    }
  }
}

}  // namespace buttress
