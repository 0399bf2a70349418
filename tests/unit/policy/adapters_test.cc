#include "lib/policy/adapters/adapters.h"

#include <gmock/gmock.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/policy/adapters/adapted_model.h"
#include "lib/policy/adapters/adapted_products.h"
#include "lib/policy/adapters/peft_folder.h"
#include "lib/weights/adapter_files.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/policy/golden.h"

namespace buttress {
namespace {

using testing::HasSubstr;

// With B that is not 0, which would hide A.
Adapters RandomAdapters(const LoraConfig& lora, const ModelConfig& model) {
  Adapters adapters = DrawnAdapters(lora, model, 3);
  torch::manual_seed(4);
  for (auto& [name, tensor] : NamedAdapters(adapters, model))
    if (name.ends_with("lora_B.weight")) tensor.normal_(0, 0.1);
  return adapters;
}

at::Tensor Plain(const at::Tensor& x, const at::Tensor& weight, const Adapter& adapter,
                 double scale) {
  const at::Tensor base = at::linear(x, weight);
  if (!adapter.a_rI.defined()) return base;
  return base + scale * at::linear(at::linear(x, adapter.a_rI), adapter.b_Or);
}

TEST(AdaptersTest, AIsDrawnWithinItsBoundAndBIsZero) {
  const ModelConfig model = GoldenModel("qwen2_tiny")->config();
  LoraConfig lora{.rank = 4};
  for (const auto& [name, tensor] : NamedAdapters(DrawnAdapters(lora, model, 1), model)) {
    if (name.ends_with("lora_B.weight")) {
      EXPECT_EQ(tensor.abs().max().item<float>(), 0) << name;
      continue;
    }
    // kaiming_uniform_ with a = sqrt(5): bound sqrt(6 / (1 + 5)) / sqrt(inputs).
    const double bound = 1 / std::sqrt(static_cast<double>(tensor.size(1)));
    EXPECT_LE(tensor.abs().max().item<double>(), bound) << name;
    EXPECT_GT(tensor.abs().max().item<double>(), 0.8 * bound) << name;
    EXPECT_NEAR(tensor.mean().item<double>(), 0, 0.2 * bound) << name;
  }
  const auto again = DrawnAdapters(lora, model, 1), other = DrawnAdapters(lora, model, 2);
  EXPECT_TRUE(again.layers[0].q.a_rI.equal(DrawnAdapters(lora, model, 1).layers[0].q.a_rI));
  EXPECT_FALSE(again.layers[0].q.a_rI.equal(other.layers[0].q.a_rI));
  EXPECT_FALSE(again.layers[0].q.a_rI.equal(again.layers[1].q.a_rI));
}

TEST(AdaptersTest, TheScaleIsThatOfLoraOrOfRslora) {
  EXPECT_EQ((LoraConfig{.rank = 16, .alpha = 32}.scale()), 2);
  EXPECT_EQ((LoraConfig{.rank = 16, .alpha = 32, .rslora = true}.scale()), 8);
}

// Joint products with adapters of some of their matrices, against one product each.
TEST(AdaptersTest, ProductsAndGradientsEqualThoseOfOneGraph) {
  const auto model = GoldenModel("qwen2_untied");
  const LayerWeights& w = model->weights().layers[0];
  LayerWeights no_bias = w;
  no_bias.q_bias = no_bias.k_bias = no_bias.v_bias = at::Tensor();
  const ParameterProducts base(no_bias);
  using enum LoraTarget;
  for (const std::vector<LoraTarget>& targets :
       {std::vector{kAll}, std::vector{kQ, kV, kUp}, std::vector{kK, kO, kGate, kDown}}) {
    Adapters adapters = RandomAdapters({.rank = 3, .targets = targets}, model->config());
    auto named = NamedAdapters(adapters, model->config());
    for (auto& [name, tensor] : named) tensor.requires_grad_(true);
    const LayerAdapters& a = adapters.layers[0];
    const AdaptedProducts products(base, a, 0.7);
    const at::Tensor x = torch::randn({5, w.q_weight.size(1)}).requires_grad_(true);
    const at::Tensor middle = torch::randn({5, w.mlps[0].down_weight.size(1)});
    const at::Tensor out = torch::randn({5, w.o_weight.size(1)});
    const auto loss = [](const std::vector<at::Tensor>& parts) {
      return at::cat(parts, 1).square().sum();
    };
    const std::vector<at::Tensor> found = {products.Qkv(x), products.Out(out),
                                           products.GateUp(0, x), products.Down(0, middle)};
    const std::vector<at::Tensor> expected = {Plain(x, w.q_weight, a.q, 0.7),
                                              Plain(x, w.k_weight, a.k, 0.7),
                                              Plain(x, w.v_weight, a.v, 0.7),
                                              Plain(out, w.o_weight, a.o, 0.7),
                                              Plain(x, w.mlps[0].gate_weight, a.gate, 0.7),
                                              Plain(x, w.mlps[0].up_weight, a.up, 0.7),
                                              Plain(middle, w.mlps[0].down_weight, a.down, 0.7)};
    EXPECT_LT(MaxDifference(at::cat(found, 1), at::cat(expected, 1)), 1e-5);
    {
      const at::NoGradGuard no_grad;  // generation has the bits of training
      EXPECT_TRUE(products.Qkv(x).equal(found[0]));
      EXPECT_TRUE(products.Down(0, middle).equal(found[3]));
    }
    std::vector<at::Tensor> leaves = {x};
    for (const auto& [name, tensor] : named)
      if (name.starts_with(AdapterPrefix(0))) leaves.push_back(tensor);
    const auto own = torch::autograd::grad({loss(found)}, leaves);
    const auto plain = torch::autograd::grad({loss(expected)}, leaves);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_LT(MaxDifference(own[i], plain[i]), 1e-4 * plain[i].abs().max().item<double>())
          << leaves[i].sizes();
    }
  }
}

TEST(AdaptersTest, WeightsThatAreFrozenGetNoGradient) {
  const auto model = GoldenModel("qwen2_tiny");
  LayerWeights w = model->weights().layers[0];
  const at::Tensor x = torch::randn({5, w.q_weight.size(1)}).requires_grad_(true);
  const auto input_gradient = [&] {
    return torch::autograd::grad({ParameterProducts(w).Qkv(x).sum()}, {x})[0];
  };
  const at::Tensor expected = input_gradient();
  for (at::Tensor* tensor :
       {&w.q_weight, &w.k_weight, &w.v_weight, &w.q_bias, &w.k_bias, &w.v_bias})
    *tensor = tensor->detach();
  EXPECT_TRUE(input_gradient().equal(expected));
}

class PeftFolderTest : public testing::Test {
 protected:
  std::string ErrorAfter(const std::function<void(nlohmann::ordered_json&)>& change) {
    const std::string path = JoinPath(folder_, kAdapterConfigName);
    auto json = nlohmann::ordered_json::parse(*ReadFile(path));
    change(json);
    EXPECT_TRUE(WriteFileAtomic(path, json.dump()).ok());
    return LoadAdapters(folder_, model_).status().ToString();
  }

  const TempDir dir_;
  const std::string folder_ = JoinPath(dir_.path(), "adapter");
  const ModelConfig model_ = GoldenModel("qwen2_tiny")->config();
};

TEST_F(PeftFolderTest, AFolderIsReadAsItWasWritten) {
  const LoraConfig lora{
      .rank = 3, .alpha = 7, .targets = {LoraTarget::kV, LoraTarget::kDown}, .rslora = true};
  const Adapters written = RandomAdapters(lora, model_);
  ASSERT_TRUE(SaveAdapters(written, model_, "/models/base", folder_).ok());
  const auto read = LoadAdapters(folder_, model_);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->config.rank, 3);
  EXPECT_EQ(read->config.scale(), lora.scale());
  EXPECT_EQ(read->config.targets, lora.targets);
  const auto expected = NamedAdapters(written, model_), found = NamedAdapters(*read, model_);
  ASSERT_EQ(found.size(), 4 * model_.blocks.size());
  EXPECT_EQ(found[0].first, "base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight");
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].first, expected[i].first);
    EXPECT_TRUE(found[i].second.equal(expected[i].second)) << found[i].first;
  }
}

TEST_F(PeftFolderTest, WhatDoesNotFitTheModelIsNamed) {
  EXPECT_THAT(LoadAdapters(dir_.path(), model_).status().ToString(),
              HasSubstr("has no adapter_config.json; expected a folder of peft"));
  const ModelConfig other = GoldenModel("qwen2_untied")->config();
  ModelConfig fewer = model_, more = model_;
  fewer.blocks.pop_back();
  more.blocks.push_back(more.blocks.back());
  ASSERT_TRUE(SaveAdapters(RandomAdapters({.rank = 2}, model_), model_, "base", folder_).ok());
  for (const ModelConfig* model : {&fewer, &more}) {
    EXPECT_THAT(LoadAdapters(folder_, *model).status().ToString(),
                HasSubstr("the adapter is of another model"));
  }
  ModelConfig wider = model_;
  for (BlockSpec& block : wider.blocks) block.D *= 2;
  EXPECT_THAT(LoadAdapters(folder_, wider).status().ToString(), HasSubstr("has shape [2, "));
  EXPECT_THAT(ErrorAfter([](auto& json) { json["r"] = 4; }),
              HasSubstr("the model and r = 4 need [4, "));
  EXPECT_THAT(ErrorAfter([](auto& json) { json["r"] = "x"; }),
              HasSubstr("r is \"x\"; expected a rank"));
  EXPECT_THAT(ErrorAfter([](auto& json) { json["use_dora"] = true; }),
              HasSubstr("use_dora is true, which is not supported; train without it"));
  EXPECT_THAT(ErrorAfter([](auto& json) { json["peft_type"] = "LOHA"; }),
              HasSubstr("peft_type is \"LOHA\"; expected \"LORA\""));
}

TEST_F(PeftFolderTest, WhatIsNotSupportedIsNamed) {
  ASSERT_TRUE(SaveAdapters(RandomAdapters({.rank = 2}, model_), model_, "base", folder_).ok());
  const std::pair<const char*, nlohmann::ordered_json> cases[] = {
      {"bias", "lora_only"},
      {"lora_bias", true},
      {"modules_to_save", {"lm_head"}},
      {"rank_pattern", {{"q_proj", 4}}},
      {"target_parameters", {"mlp.experts.gate_up_proj"}},
      {"init_lora_weights", "pissa_niter_16"},
      {"init_lora_weights", "olora"}};
  for (const auto& [key, value] : cases) {
    const std::string was = *ReadFile(JoinPath(folder_, kAdapterConfigName));
    const std::string error = ErrorAfter([&](auto& json) { json[key] = value; });
    EXPECT_THAT(error, HasSubstr(std::string(kAdapterConfigName) + ": " + key + " is " +
                                 value.dump() + ", which "));
    EXPECT_THAT(error, HasSubstr("peft"));
    ASSERT_TRUE(WriteFileAtomic(JoinPath(folder_, kAdapterConfigName), was).ok());
  }
  for (const char* how : {"gaussian", "eva"}) {
    EXPECT_THAT(ErrorAfter([&](auto& json) { json["init_lora_weights"] = how; }), HasSubstr("OK"));
  }
}

TEST_F(PeftFolderTest, DamagedValuesAreNamed) {
  Adapters adapters = RandomAdapters({.rank = 2}, model_);
  adapters.layers[1].k.b_Or[3][1] = std::nan("");
  ASSERT_TRUE(SaveAdapters(adapters, model_, "base", folder_).ok());
  const std::string path = JoinPath(folder_, kAdapterWeightsName);
  const Status nan = LoadAdapters(folder_, model_).status();
  EXPECT_EQ(nan.code(), StatusCode::kDataLoss);
  EXPECT_THAT(nan.ToString(), HasSubstr(path + ": the adapter: base_model.model.model.layers.1."
                                               "self_attn.k_proj.lora_B.weight"));
  EXPECT_THAT(nan.ToString(), HasSubstr("1 NaN and 0 infinite"));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const Status cut = LoadAdapters(folder_, model_).status();
  EXPECT_EQ(cut.code(), StatusCode::kDataLoss);
  EXPECT_THAT(cut.ToString(), HasSubstr(path));
  std::filesystem::remove(path);
  EXPECT_EQ(LoadAdapters(folder_, model_).status().code(), StatusCode::kNotFound);
}

TEST_F(PeftFolderTest, ATrainingStartsFromAnAdapterOfItsOwnSettings) {
  const LoraConfig saved{.rank = 2, .alpha = 8, .targets = {LoraTarget::kQ, LoraTarget::kUp}};
  const Adapters adapters = RandomAdapters(saved, model_);
  ASSERT_TRUE(SaveAdapters(adapters, model_, "base", folder_).ok());
  const auto started = [&](LoraConfig lora) {
    lora.adapter = folder_;
    const auto model = GoldenModel("qwen2_tiny");
    const Status status = StartAdapters(lora, 1, *model);
    if (status.ok()) {
      const auto expected = NamedAdapters(adapters, model_);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(model->parameters()[i].second.equal(expected[i].second));
    }
    return status.ToString();
  };
  EXPECT_THAT(started(saved), HasSubstr("OK"));
  LoraConfig lora = saved;
  lora.rank = 4;
  EXPECT_THAT(started(lora),
              HasSubstr("the adapter in " + folder_ +
                        " has rank 2, alpha 8, targets q_proj up_proj, rslora off; the settings "
                        "name rank 4, alpha 8, targets q_proj up_proj, rslora off; take the "
                        "settings of the adapter, or leave the adapter out"));
  lora = saved;
  lora.alpha = 16;
  EXPECT_THAT(started(lora), HasSubstr("name rank 2, alpha 16"));
  lora = saved;
  lora.targets = {LoraTarget::kAll};
  EXPECT_THAT(started(lora), HasSubstr("q_proj k_proj v_proj o_proj gate_proj up_proj down_proj"));
  lora = saved;
  lora.rslora = true;
  EXPECT_THAT(started(lora), HasSubstr("rslora on"));
}

TEST_F(PeftFolderTest, ExpertsHaveNoAdapters) {
  const ModelConfig mixture = GoldenModel("qwen3_moe")->config();
  EXPECT_THAT(CheckTargets({.rank = 2}, mixture).ToString(),
              HasSubstr("set the targets [q_proj, k_proj, v_proj, o_proj]"));
  EXPECT_TRUE(CheckTargets({.rank = 2, .targets = {LoraTarget::kO}}, mixture).ok());
}

}  // namespace
}  // namespace buttress
