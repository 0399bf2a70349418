#include "lib/policy/transformer.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <cstdlib>
#include <filesystem>

#include "lib/policy/weights/parameters.h"
#include "lib/weights/safetensors.h"
#include "tests/support/live_bytes.h"
#include "tests/unit/policy/golden.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

std::string NewFolder(const std::string& name) {
  const auto path =
      std::filesystem::path(::testing::TempDir()) / ("policy_" + name + std::to_string(::getpid()));
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path.string();
}

class GoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, PackedSequencesEqualSeparateOnes) {
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

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::Values("qwen2_tiny", "qwen2_untied"),
                         [](const auto& param) { return std::string(param.param); });

TEST(TransformerTest, GradientsOfAPackedBatchAreTheSumOfThoseOfItsSequences) {
  const auto model = GoldenModel("qwen2_tiny");
  const std::vector<std::vector<std::int64_t>> sequences = {
      {1, 2, 3, 4, 5, 6, 7}, {9, 8}, {3, 1, 4, 1, 5, 9, 2, 6}, {5}};
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

// Compares completions that continue one prompt with completions that each follow their own copy.
TEST(TransformerTest, ASharedPromptGivesTheSameHiddenStatesAndGradients) {
  const std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> groups = {
      {5, {7, 1, 4}}, {9, {}}, {6, {6}}};
  for (const std::int64_t scale : {1, 12}) {  // the short-attention kernel, then that of LibTorch
    const auto model = GoldenModel("qwen2_untied");
    std::vector<std::int64_t> shared_tokens, shared_lengths, prefixes, plain_tokens, plain_lengths,
        shared_rows, plain_rows;
    const auto tokens_of = [](std::int64_t seed, std::int64_t count) {
      std::vector<std::int64_t> tokens;
      for (std::int64_t t = 0; t < count; ++t) tokens.push_back((seed * 37 + t * t + 11 * t) % 128);
      return tokens;
    };
    const auto append = [](std::vector<std::int64_t>& to, const std::vector<std::int64_t>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    std::int64_t seed = 0;
    for (const auto& [prompt_length, continuations] : groups) {
      const auto prompt = tokens_of(++seed, prompt_length * scale);
      const auto root = static_cast<std::int64_t>(shared_lengths.size());
      append(shared_tokens, prompt);
      shared_lengths.push_back(prompt_length * scale);
      prefixes.push_back(-1);
      if (continuations.empty()) {
        append(plain_tokens, prompt);
        plain_lengths.push_back(prompt_length * scale);
      }
      for (const std::int64_t length : continuations) {
        const auto completion = tokens_of(++seed, length * scale);
        for (std::int64_t t = 0; t < length * scale; ++t) {
          shared_rows.push_back(static_cast<std::int64_t>(shared_tokens.size()) + t);
          plain_rows.push_back(static_cast<std::int64_t>(plain_tokens.size()) +
                               prompt_length * scale + t);
        }
        append(shared_tokens, completion);
        shared_lengths.push_back(length * scale);
        prefixes.push_back(root);
        append(plain_tokens, prompt);
        append(plain_tokens, completion);
        plain_lengths.push_back((prompt_length + length) * scale);
      }
    }
    const at::Tensor plain =
        model->Hidden(TokensOf(plain_tokens), plain_lengths).index_select(0, TokensOf(plain_rows));
    plain.sin().sum().backward();
    std::vector<at::Tensor> expected;
    for (const auto& [name, tensor] : model->parameters()) {
      expected.push_back(tensor.grad().defined() ? tensor.grad().clone() : at::Tensor());
      at::Tensor(tensor).mutable_grad().reset();
    }
    const at::Tensor shared = model->Hidden(TokensOf(shared_tokens), shared_lengths, prefixes)
                                  .index_select(0, TokensOf(shared_rows));
    shared.sin().sum().backward();
    EXPECT_LT(MaxDifference(shared, plain), 1e-5) << "scale " << scale;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto& [name, tensor] = model->parameters()[i];
      if (!expected[i].defined()) continue;
      const double size = std::max(1.0, expected[i].abs().max().item<double>());
      EXPECT_LT(MaxDifference(tensor.grad(), expected[i]) / size, 1e-5)
          << name << " scale " << scale;
    }
  }
}

TEST(TransformerTest, AContinuationThatDoesNotFollowItsPrefixIsRefused) {
  const auto model = GoldenModel("qwen2_tiny");
  const std::vector<std::int64_t> lengths = {2, 1, 1};
  EXPECT_THROW(model->Hidden(TokensOf({1, 2, 3, 4}), lengths, std::vector<std::int64_t>{-1, -1, 0}),
               c10::Error);
  EXPECT_THROW(model->Hidden(TokensOf({1, 2, 3, 4}), lengths, std::vector<std::int64_t>{-1, 0, 1}),
               c10::Error);
  EXPECT_THROW(model->Hidden(TokensOf({1, 2, 3, 4}), lengths, std::vector<std::int64_t>{0, -1, -1}),
               c10::Error);
}

TEST(TransformerTest, ASavedFolderLoadsToTheSameBits) {
  const auto model = GoldenModel("qwen2_untied", ModelDtype::kBfloat16);
  const std::string folder = NewFolder("saved");
  const Status saved = SaveModelFolder(*model, GoldenFolder("qwen2_untied"), folder);
  ASSERT_TRUE(saved.ok()) << saved.ToString();
  const auto again = Transformer::Load(folder, ModelDtype::kBfloat16, {});
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

TEST(TransformerTest, AModelSavedInSeveralFilesIsTheSameModel) {
  const auto model = GoldenModel("qwen2_untied");
  const std::string folder = NewFolder("divided");
  ASSERT_TRUE(SaveModelFolder(*model, GoldenFolder("qwen2_untied"), folder).ok());
  ::setenv("BUTTRESS_WEIGHT_FILE_BYTES", "5000", 1);
  const Status saved = SaveModelFolder(*model, GoldenFolder("qwen2_untied"), folder);
  ::unsetenv("BUTTRESS_WEIGHT_FILE_BYTES");
  ASSERT_TRUE(saved.ok()) << saved.ToString();
  EXPECT_FALSE(std::filesystem::exists(folder + "/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/model.safetensors.index.json"));
  const auto again = Transformer::Load(folder, ModelDtype::kFloat32, {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  for (std::size_t i = 0; i < model->parameters().size(); ++i)
    EXPECT_TRUE(at::equal(model->parameters()[i].second, (*again)->parameters()[i].second));
  ASSERT_TRUE(SaveModelFolder(*model, GoldenFolder("qwen2_untied"), folder).ok());
  EXPECT_FALSE(std::filesystem::exists(folder + "/model.safetensors.index.json"));
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

TEST(StoredParametersTest, AMisshapenTensorIsRefusedByName) {
  const auto model = GoldenModel("qwen2_tiny");
  const Status status =
      StoredParameters::Open(GoldenFolder("qwen2_untied"), model->parameters(), true).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(
      status.message(),
      HasSubstr("model.embed_tokens.weight has shape [128, 48]; config.json implies [128, 64]"));
}

// Copying from the file converts, and holds no second copy where the dtype is that of the file.
TEST(StoredParametersTest, ConvertsAndHoldsNoSecondCopy) {
  const auto source = GoldenModel("qwen2_tiny");
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto stored =
        StoredParameters::Open(GoldenFolder("qwen2_tiny"), source->parameters(), true);
    ASSERT_TRUE(stored.ok()) << stored.status().ToString();
    for (std::size_t i = 0; i < source->parameters().size(); ++i) {
      const at::Tensor& expected = source->parameters()[i].second;
      const at::Tensor found = at::empty(expected.sizes(), type);
      const LiveBytes bytes;
      ASSERT_TRUE(stored->CopyTo(i, found).ok());
      EXPECT_EQ(bytes.peak() > 0, type != at::kFloat);
      EXPECT_TRUE(at::equal(expected.detach().to(type), found));
    }
  }
}

TEST(TransformerTest, ATransformerOnAGpuDoesWithoutTheAttentionOfCuDnn) {
  at::globalContext().setSDPUseCuDNN(true);
  ASSERT_TRUE(OpenDevice({}).ok());
  EXPECT_TRUE(at::globalContext().userEnabledCuDNNSDP());
  EXPECT_EQ(OpenDevice({.cuda = true, .index = 0}).ok(), at::hasCUDA());
  EXPECT_FALSE(at::globalContext().userEnabledCuDNNSDP());
}

TEST(TransformerTest, RandomWeightsDependOnTheSeedAlone) {
  const auto config = LoadModelConfig(GoldenFolder("qwen2_tiny"));
  ASSERT_TRUE(config.ok());
  const auto a = Transformer::Random(*config, ModelDtype::kFloat32, {}, 1);
  const auto b = Transformer::Random(*config, ModelDtype::kFloat32, {}, 1);
  const auto c = Transformer::Random(*config, ModelDtype::kFloat32, {}, 2);
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
  EXPECT_THAT(refusal("architectures", {"MambaForCausalLM"}).message(),
              HasSubstr("architectures = [\"MambaForCausalLM\"]"));
  EXPECT_THAT(refusal("rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}).message(),
              HasSubstr("rope_scaling"));
  EXPECT_THAT(refusal("hidden_size", -3).message(), HasSubstr("hidden_size = -3"));
  EXPECT_THAT(refusal("num_key_value_heads", 3).message(),
              HasSubstr("a divisor of num_attention_heads"));
  EXPECT_TRUE(refusal("rope_scaling", nullptr).ok());
}

}  // namespace
}  // namespace buttress
