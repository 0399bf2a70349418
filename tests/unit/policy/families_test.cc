// Every family next to transformers, with the kernels of the CPU and with the operators that GPUs
// run; tests/golden/make_families_golden.py writes the numbers.
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <filesystem>
#include <optional>

#include "lib/policy/cpu/for_rows.h"
#include "lib/policy/decode/generator.h"
#include "lib/policy/families/family.h"
#include "lib/policy/logprobs.h"
#include "lib/weights/safetensors.h"
#include "tests/support/named_gradients.h"
#include "tests/unit/policy/golden.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr double kBound = 1e-5;  // of the largest value of a tensor, in float32

const std::vector<std::string>& FamilyModels() {
  static const std::vector<std::string> names = {"qwen3",   "qwen3_moe", "llama",
                                                 "mistral", "gemma2",    "gemma3"};
  return names;
}

const nlohmann::json& FamilyNumbers() {
  static const auto numbers =
      nlohmann::json::parse(*ReadFile(std::string(BUTTRESS_GOLDEN) + "/families.json"));
  return numbers;
}

std::string FamilyTestFolder(const std::string& name) {
  const auto path = std::filesystem::path(::testing::TempDir()) /
                    ("families_" + name + std::to_string(::getpid()));
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path.string();
}

double RelativeError(const at::Tensor& found, const nlohmann::json& expected) {
  const at::Tensor values = torch::tensor(expected.get<std::vector<double>>(), torch::kDouble);
  if (values.numel() == 0) return 0;
  return MaxDifference(found.detach().to(torch::kDouble), values) /
         values.abs().max().item<double>();
}

// The parameter is the model, and whether the kernels of the CPU are left out.
class FamiliesTest : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  FamiliesTest() : name(std::get<0>(GetParam())), golden(FamilyNumbers()[name]) {
    if (std::get<1>(GetParam())) portable.emplace();
    model = GoldenModel(name);
  }

  std::optional<PortableOnly> portable;
  std::string name;
  const nlohmann::json& golden;
  std::unique_ptr<Transformer> model;
};

TEST_P(FamiliesTest, LogitsLogprobsAndEntropiesEqualThoseOfTransformers) {
  const at::NoGradGuard no_grad;
  double worst = 0;
  for (const auto& row : golden["sequences"]) {
    const auto tokens = row["tokens"].get<std::vector<std::int64_t>>();
    const auto length = static_cast<std::int64_t>(tokens.size());
    const at::Tensor ids = TokensOf(tokens);
    const at::Tensor hidden = model->Hidden(ids, std::span(&length, 1));
    const at::Tensor logits = model->Logits(hidden.narrow(0, length - 1, 1)).squeeze(0);
    worst = std::max(worst, RelativeError(logits, row["last_logits"]));
    const auto scored =
        ScoreTokens(*model, hidden, ids.roll(-1),
                    {FamilyNumbers()["temperature"], EntropyMode::kDetached, {}, 7});
    worst =
        std::max(worst, RelativeError(scored.logprobs_M.narrow(0, 0, length - 1), row["logprobs"]));
    worst = std::max(worst, RelativeError(scored.entropy_M, row["entropy"]));
  }
  RecordProperty("worst", std::to_string(worst));
  EXPECT_LT(worst, kBound);
}

// Sequences of at most 33 tokens may use the short-attention kernel; the batch with longer ones is
// padded to rectangles.
TEST_P(FamiliesTest, GradientsOfPackedSequencesEqualThoseOfTransformers) {
  std::vector<std::vector<std::int64_t>> short_ones, long_ones;
  for (const auto& row : golden["sequences"]) {
    auto tokens = row["tokens"].get<std::vector<std::int64_t>>();
    (tokens.size() <= 33 ? short_ones : long_ones).push_back(std::move(tokens));
  }
  ASSERT_EQ(long_ones.size(), 2u);
  NamedGradients gradients(*model);
  for (const auto& sequences : {short_ones, long_ones}) {
    ModelPass pass(*model, ScoredSequences(sequences), {FamilyNumbers()["temperature"]});
    pass.Backward(pass.GradientOf(pass.output().logprobs_M.sum()), gradients);
  }
  double worst = 0;
  ASSERT_EQ(model->parameters().size(), golden["gradients"].size());
  for (const auto& [parameter, tensor] : model->parameters()) {
    const auto& expected = golden["gradients"][parameter];
    const double largest = expected["largest"].get<double>();
    const at::Tensor values =
        torch::tensor(expected["values"].get<std::vector<double>>(), torch::kDouble);
    const at::Tensor& gradient = gradients.sums[parameter];
    ASSERT_TRUE(gradient.defined()) << parameter;
    const at::Tensor flat = gradient.flatten().to(torch::kDouble);
    std::vector<std::int64_t> evenly_spaced;
    for (std::int64_t i = 0; i < values.numel(); ++i)
      evenly_spaced.push_back(i * flat.numel() / values.numel());
    const at::Tensor found = flat.index_select(0, TokensOf(evenly_spaced));
    const double error = MaxDifference(found, values) / largest;
    EXPECT_LT(error, kBound) << parameter;
    const double norm = expected["norm"].get<double>();
    EXPECT_NEAR(flat.norm().item<double>(), norm, kBound * norm) << parameter;
    worst = std::max(worst, error);
  }
  RecordProperty("worst", std::to_string(worst));
}

TEST_P(FamiliesTest, GreedyTokensWithTheCacheEqualThoseOfTransformers) {
  Generator generator(*model, {.max_running = 8, .kv_cache_tokens = 1024});
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = 24;
  const auto& rows = golden["greedy"];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto prompt = rows[i]["prompt"].get<std::vector<std::int32_t>>();
    ASSERT_TRUE(generator.Add(i, std::move(prompt), sampling).ok());
  }
  std::size_t done = 0;
  while (generator.running() + generator.waiting() > 0) {
    for (const auto& sequence : generator.Step()) {
      const auto expected = rows[sequence.key]["tokens"].get<std::vector<std::int32_t>>();
      EXPECT_EQ(sequence.token_ids, expected) << "prompt " << sequence.key;
      ++done;
    }
  }
  EXPECT_EQ(done, rows.size());
}

TEST_P(FamiliesTest, ASharedPromptGivesTheSameHiddenStates) {
  const at::NoGradGuard no_grad;
  std::vector<std::int64_t> prompt, first, second;
  for (std::int64_t t = 0; t < 37; ++t) prompt.push_back((t * t + 3) % 64);
  for (std::int64_t t = 0; t < 21; ++t) first.push_back((5 * t + 2) % 64);
  for (std::int64_t t = 0; t < 30; ++t) second.push_back((t * t * t + 9) % 64);
  const auto join = [](std::vector<std::int64_t> a, const std::vector<std::int64_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const std::vector<std::int64_t> lengths = {37, 21, 30}, prefixes = {-1, 0, 0};
  const at::Tensor shared =
      model->Hidden(TokensOf(join(join(prompt, first), second)), lengths, prefixes);
  const auto alone = [&](const std::vector<std::int64_t>& completion) {
    const auto tokens = join(prompt, completion);
    const auto length = static_cast<std::int64_t>(tokens.size());
    return model->Hidden(TokensOf(tokens), std::span(&length, 1)).narrow(0, 37, length - 37);
  };
  const double largest = shared.abs().max().item<double>();
  EXPECT_LT(MaxDifference(shared.narrow(0, 37, 21), alone(first)), kBound * largest);
  EXPECT_LT(MaxDifference(shared.narrow(0, 58, 30), alone(second)), kBound * largest);
}

TEST_P(FamiliesTest, ASavedFolderHasTheSameTensorsAndLoadsToTheSameBits) {
  const std::string folder = FamilyTestFolder(name);
  const Status saved = SaveModelFolder(*model, GoldenFolder(name), folder);
  ASSERT_TRUE(saved.ok()) << saved.ToString();
  const auto before = SafetensorsFolder::Open(GoldenFolder(name));
  const auto after = SafetensorsFolder::Open(folder);
  ASSERT_TRUE(before.ok() && after.ok());
  std::vector<std::string> names = (*before)->names();
  std::erase(names, "lm_head.weight");
  std::vector<std::string> saved_names = (*after)->names();
  std::erase(saved_names, "lm_head.weight");
  EXPECT_THAT(saved_names, ::testing::UnorderedElementsAreArray(names));
  const auto again = Transformer::Load(folder, ModelDtype::kFloat32, {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  for (std::size_t i = 0; i < model->parameters().size(); ++i)
    EXPECT_TRUE(at::equal(model->parameters()[i].second, (*again)->parameters()[i].second));
}

INSTANTIATE_TEST_SUITE_P(Models, FamiliesTest,
                         ::testing::Combine(::testing::ValuesIn(FamilyModels()), ::testing::Bool()),
                         [](const auto& param) {
                           return std::get<0>(param.param) +
                                  (std::get<1>(param.param) ? "_portable" : "");
                         });

// Changes one field of a model's config.json (null removes it) and returns what LoadModelConfig
// says.
class ConfigTest : public ::testing::Test {
 protected:
  Result<ModelConfig> With(const std::string& model, const std::string& key,
                           const nlohmann::json& value) {
    auto config = nlohmann::json::parse(*ReadFile(GoldenFolder(model) + "/config.json"));
    config[key] = value;
    EXPECT_TRUE(WriteFileAtomic(folder + "/config.json", config.dump()).ok());
    return LoadModelConfig(folder);
  }

  std::string Refusal(const std::string& model, const std::string& key,
                      const nlohmann::json& value) {
    const auto result = With(model, key, value);
    return result.ok() ? "accepted" : result.status().message();
  }

  const std::string folder = FamilyTestFolder("config");
};

TEST_F(ConfigTest, WhatChangesTheArithmeticAndIsNotSupportedIsRefusedByName) {
  EXPECT_THAT(Refusal("qwen3", "hidden_act", "relu"),
              HasSubstr("hidden_act = \"relu\": not supported; expected \"silu\""));
  EXPECT_THAT(Refusal("qwen3", "num_nextn_predict_layers", 1),
              HasSubstr("num_nextn_predict_layers = 1: not a known field of Qwen3ForCausalLM"));
  EXPECT_THAT(Refusal("qwen3", "layer_types", {"full_attention"}), HasSubstr("layer_types"));
  EXPECT_THAT(Refusal("qwen3", "layer_types", {"chunked_attention", "full_attention"}),
              HasSubstr("layer_types"));
  EXPECT_THAT(Refusal("qwen3", "model_type", "qwen2"), HasSubstr("model_type"));
  EXPECT_THAT(Refusal("qwen3_moe", "num_experts_per_tok", 6),
              HasSubstr("num_experts_per_tok = 6: expected at most num_experts"));
  EXPECT_THAT(Refusal("qwen3_moe", "mlp_only_layers", {0, 3}),
              HasSubstr("mlp_only_layers = [0,3]; expected a list of indices of layers"));
  EXPECT_THAT(Refusal("qwen3_moe", "output_router_logits", true),
              HasSubstr("output_router_logits = true: not supported; expected false"));
  EXPECT_THAT(Refusal("qwen3_moe", "router_aux_loss_coef", "none"),
              HasSubstr("router_aux_loss_coef"));
  EXPECT_THAT(Refusal("qwen3_moe", "use_sliding_window", true), HasSubstr("use_sliding_window"));
  EXPECT_THAT(Refusal("qwen3_moe", "shared_expert_intermediate_size", 64),
              HasSubstr("shared_expert_intermediate_size = 64: not a known field"));
  EXPECT_THAT(Refusal("llama", "mlp_bias", true), HasSubstr("mlp_bias = true"));
  EXPECT_THAT(Refusal("llama", "rope_parameters", {{"rope_type", "yarn"}, {"factor", 4.0}}),
              HasSubstr("rope_parameters: rope_type = \"yarn\""));
  EXPECT_THAT(Refusal("llama", "rope_parameters", {{"rope_type", "llama3"}}),
              HasSubstr("rope_parameters: factor is missing"));
  EXPECT_THAT(Refusal("llama", "rope_parameters", {{"partial_rotary_factor", 0.5}}),
              HasSubstr("partial_rotary_factor = 0.5"));
  EXPECT_THAT(Refusal("mistral", "quantization_config", {{"bits", 4}}),
              HasSubstr("quantization_config"));
  EXPECT_THAT(Refusal("mistral", "sliding_window", -4), HasSubstr("sliding_window = -4"));
  EXPECT_THAT(Refusal("gemma2", "use_bidirectional_attention", true),
              HasSubstr("use_bidirectional_attention"));
  EXPECT_THAT(Refusal("gemma3", "attn_logit_softcapping", 50.0),
              HasSubstr("attn_logit_softcapping"));
  EXPECT_THAT(Refusal("gemma3", "architectures", {"Gemma3ForConditionalGeneration"}),
              HasSubstr("architectures"));
  for (const Family& family : Families())
    EXPECT_THAT(Refusal("gemma3", "architectures", nullptr), HasSubstr(family.architecture));
}

TEST_F(ConfigTest, HarmlessFieldsAndNullsAreAccepted) {
  EXPECT_EQ(Refusal("llama", "pretraining_tp", 2), "accepted");
  EXPECT_EQ(Refusal("gemma2", "cache_implementation", "hybrid"), "accepted");
  EXPECT_EQ(Refusal("qwen3", "some_field", nullptr), "accepted");
}

// The fields of transformers 4, next to those of transformers 5 in the golden folders.
TEST_F(ConfigTest, OldSpellingsOfTheRotaryEmbeddingMeanTheSame) {
  const auto read = [&](const std::string& model, const nlohmann::json& old) {
    auto config = nlohmann::json::parse(*ReadFile(GoldenFolder(model) + "/config.json"));
    config.erase("rope_parameters");
    config.update(old);
    EXPECT_TRUE(WriteFileAtomic(folder + "/config.json", config.dump()).ok());
    const auto result = LoadModelConfig(folder);
    EXPECT_TRUE(result.ok()) << result.status().ToString();
    return result->ropes;
  };
  const auto expect_equal = [](const RopeSpec& a, const RopeSpec& b) {
    EXPECT_EQ(a.theta, b.theta);
    EXPECT_EQ(a.factor, b.factor);
    EXPECT_EQ(a.low_freq_factor, b.low_freq_factor);
    EXPECT_EQ(a.high_freq_factor, b.high_freq_factor);
    EXPECT_EQ(a.original_positions, b.original_positions);
  };
  const auto llama = LoadModelConfig(GoldenFolder("llama"));
  expect_equal(read("llama", {{"rope_theta", 10000.0},
                              {"rope_scaling",
                               {{"type", "llama3"},
                                {"factor", 8.0},
                                {"low_freq_factor", 1.0},
                                {"high_freq_factor", 4.0},
                                {"original_max_position_embeddings", 32}}}})[0],
               llama->ropes[0]);
  const auto gemma = LoadModelConfig(GoldenFolder("gemma3"));
  const auto ropes = read("gemma3", {{"rope_theta", 100000.0},
                                     {"rope_local_base_freq", 10000.0},
                                     {"rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}}}});
  ASSERT_EQ(ropes.size(), 2u);
  expect_equal(ropes[0], gemma->ropes[0]);
  expect_equal(ropes[1], gemma->ropes[1]);
}

}  // namespace
}  // namespace buttress
