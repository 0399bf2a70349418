#include "lib/policy/transformer.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <filesystem>

#include "lib/weights/safetensors.h"
#include "tests/unit/policy/golden.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

std::string NewFolder(const std::string& name) {
  const auto path = std::filesystem::path(::testing::TempDir()) / ("policy_" + name + std::to_string(::getpid()));
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path.string();
}

double MaxDifference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

class GoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, LogitsEqualThoseOfTransformers) {
  const at::NoGradGuard no_grad;
  const auto model = GoldenModel(GetParam());
  double worst = 0;
  const nlohmann::json numbers = GoldenNumbers();
  for (const auto& row : numbers[GetParam()]["sequences"]) {
    const auto tokens = row["tokens"].get<std::vector<std::int64_t>>();
    const std::int64_t length = static_cast<std::int64_t>(tokens.size());
    const at::Tensor hidden = model->Hidden(TokensOf(tokens), std::span(&length, 1));
    const at::Tensor logits = model->Logits(hidden.narrow(0, length - 1, 1)).squeeze(0);
    const auto expected = row["last_logits"].get<std::vector<double>>();
    worst = std::max(worst, MaxDifference(logits.to(at::kDouble), torch::tensor(expected, at::kDouble)));
  }
  RecordProperty("worst_logit_difference", std::to_string(worst));
  EXPECT_LT(worst, 1e-4);
}

TEST_P(GoldenTest, PackedSequencesEqualThemOneByOne) {
  const at::NoGradGuard no_grad;
  const auto model = GoldenModel(GetParam());
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> lengths;
  std::vector<at::Tensor> alone;
  const nlohmann::json numbers = GoldenNumbers();
  for (const auto& row : numbers[GetParam()]["sequences"]) {
    const auto sequence = row["tokens"].get<std::vector<std::int64_t>>();
    const std::int64_t length = static_cast<std::int64_t>(sequence.size());
    alone.push_back(model->Hidden(TokensOf(sequence), std::span(&length, 1)));
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    lengths.push_back(length);
  }
  const at::Tensor packed = model->Hidden(TokensOf(tokens), lengths);
  EXPECT_LT(MaxDifference(packed, at::cat(alone)), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::Values("qwen2_tiny", "qwen2_untied"), [](const auto& param) {
  return std::string(param.param);
});

TEST(TransformerTest, GradientsOfAPackedBatchAreTheSumOfThoseOfItsSequences) {
  const auto model = GoldenModel("qwen2_tiny");
  const std::vector<std::vector<std::int64_t>> sequences = {{1, 2, 3, 4, 5, 6, 7}, {9, 8}, {3, 1, 4, 1, 5, 9, 2, 6}, {5}};
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> lengths;
  for (const auto& sequence : sequences) {
    const std::int64_t length = static_cast<std::int64_t>(sequence.size());
    model->Hidden(TokensOf(sequence), std::span(&length, 1)).sin().sum().backward();
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    lengths.push_back(length);
  }
  std::vector<at::Tensor> expected;
  for (const auto& [name, tensor] : model->parameters()) {
    expected.push_back(tensor.grad().clone());
    at::Tensor(tensor).mutable_grad().zero_();
  }
  model->Hidden(TokensOf(tokens), lengths).sin().sum().backward();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& [name, tensor] = model->parameters()[i];
    const double scale = std::max(1.0, expected[i].abs().max().item<double>());
    EXPECT_LT(MaxDifference(tensor.grad(), expected[i]) / scale, 1e-5) << name;
  }
}

TEST(TransformerTest, ASavedFolderLoadsToTheSameBits) {
  const auto model = GoldenModel("qwen2_untied", "bfloat16");
  const std::string folder = NewFolder("saved");
  const Status saved = SaveModelFolder(*model, GoldenFolder("qwen2_untied"), folder);
  ASSERT_TRUE(saved.ok()) << saved.ToString();
  const auto again = Transformer::Load(folder, "bfloat16", {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    EXPECT_TRUE(at::equal(model->parameters()[i].second, (*again)->parameters()[i].second));
  }
  const auto config = nlohmann::json::parse(*ReadFile(folder + "/config.json"));
  EXPECT_EQ(config["dtype"], "bfloat16");
  const auto file = SafetensorsFile::Open(folder + "/model.safetensors");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->Find("lm_head.weight")->dtype, "BF16");
}

TEST(TransformerTest, ATiedHeadIsNeitherListedNorSaved) {
  const auto model = GoldenModel("qwen2_tiny");
  const std::string folder = NewFolder("tied");
  ASSERT_TRUE(SaveModelFolder(*model, GoldenFolder("qwen2_tiny"), folder).ok());
  const auto file = SafetensorsFile::Open(folder + "/model.safetensors");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->Find("lm_head.weight"), nullptr);
  EXPECT_EQ((*file)->tensors().size(), model->parameters().size());
}

TEST(TransformerTest, AMisshapenTensorIsRefusedByNameAndNothingChanges) {
  const auto model = GoldenModel("qwen2_tiny");
  std::vector<at::Tensor> before;
  for (const auto& [name, tensor] : model->parameters()) before.push_back(tensor.detach().clone());
  const Status status = model->LoadWeights(GoldenFolder("qwen2_untied"));
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("model.embed_tokens.weight has shape [128, 48]; config.json makes it [128, 64]"));
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(before[i], model->parameters()[i].second));
}

TEST(TransformerTest, LoadWeightsTakesAnotherFoldersValues) {
  const auto model = GoldenModel("qwen2_tiny");
  const auto other = Transformer::Random(model->config(), "float32", {}, 3);
  ASSERT_TRUE(other.ok());
  const std::string folder = NewFolder("other");
  ASSERT_TRUE(SaveModelFolder(**other, GoldenFolder("qwen2_tiny"), folder).ok());
  ASSERT_TRUE(model->LoadWeights(folder).ok());
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    EXPECT_TRUE(at::equal((*other)->parameters()[i].second, model->parameters()[i].second));
  }
}

TEST(TransformerTest, RandomWeightsDependOnTheSeedAlone) {
  const auto config = LoadModelConfig(GoldenFolder("qwen2_tiny"));
  ASSERT_TRUE(config.ok());
  const auto a = Transformer::Random(*config, "float32", {}, 1);
  const auto b = Transformer::Random(*config, "float32", {}, 1);
  const auto c = Transformer::Random(*config, "float32", {}, 2);
  EXPECT_TRUE(at::equal((*a)->parameters()[0].second, (*b)->parameters()[0].second));
  EXPECT_FALSE(at::equal((*a)->parameters()[0].second, (*c)->parameters()[0].second));
  EXPECT_NEAR((*a)->parameters()[0].second.std().item<double>(), config->initializer_range, 0.001);
}

TEST(ModelConfigTest, UnimplementedVariantsAreRefusedByName) {
  const std::string folder = NewFolder("variant");
  auto config = nlohmann::json::parse(*ReadFile(GoldenFolder("qwen2_tiny") + "/config.json"));
  const auto refusal = [&](const std::string& key, const nlohmann::json& value) {
    auto changed = config;
    changed[key] = value;
    EXPECT_TRUE(WriteFileAtomic(folder + "/config.json", changed.dump()).ok());
    return LoadModelConfig(folder).status();
  };
  EXPECT_THAT(refusal("architectures", {"LlamaForCausalLM"}).message(), HasSubstr("architectures = [\"LlamaForCausalLM\"]"));
  EXPECT_THAT(refusal("rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}).message(), HasSubstr("rope_scaling"));
  EXPECT_THAT(refusal("use_sliding_window", true).message(), HasSubstr("use_sliding_window"));
  EXPECT_THAT(refusal("hidden_size", -3).message(), HasSubstr("hidden_size = -3"));
  EXPECT_THAT(refusal("num_key_value_heads", 3).message(), HasSubstr("a divisor of num_attention_heads"));
  EXPECT_TRUE(refusal("rope_scaling", nullptr).ok());
}

}  // namespace
}  // namespace buttress
