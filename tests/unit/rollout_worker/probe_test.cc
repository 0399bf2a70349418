#include "rollout_worker/evaluation/probe.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/prepare/new_model.h"
#include "lib/base/os/file.h"
#include "lib/policy/transformer.h"
#include "rollout_worker/evaluation/local_models.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

class ProbeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    RunSettings& run = options_.config.run;
    run.model.path = Model("model", 0.02, 5);
    run.data.prompts = Rows("prompts", 40);
    run.reward.verifier = "exact";
    run.sampling.max_tokens = 8;
    options_.completions = 4;
  }

  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }

  // A folder with random weights of this deviation.
  std::string Model(const std::string& name, double deviation, std::uint64_t seed,
                    const std::string& characters = "0123456789+=") const {
    NewModelOptions model;
    model.characters = characters;
    model.layers = 1;
    model.hidden = 32;
    model.heads = 1;
    model.intermediate = 64;
    model.max_positions = 32;
    EXPECT_TRUE(WriteNewModel(model, Path(name)).ok());
    auto config = *LoadModelConfig(Path(name));
    config.initializer_range = deviation;
    const auto random = Transformer::Random(config, ModelDtype::kFloat32, {}, seed);
    EXPECT_TRUE(random.ok() && SaveModelFolder(**random, Path(name), Path(name)).ok());
    return Path(name);
  }

  // A file of `count` prompts.
  std::string Rows(const std::string& name, int count, const std::string& prompt = "") const {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += nlohmann::json{{"prompt", prompt + std::to_string(i)}, {"answer", "7"}}.dump() + "\n";
    EXPECT_TRUE(WriteFileAtomic(Path(name), text).ok());
    return Path(name);
  }

  ProbeFacts Probed() const {
    auto facts = RunProbe(options_, &kLocalModels);
    EXPECT_TRUE(facts.ok()) << facts.status().message();
    return facts.ok() ? *std::move(facts) : ProbeFacts();
  }

  TempDir dir_;
  ProbeOptions options_;
};

std::int64_t CountOf(const ProbeFacts& facts, const std::string& source) {
  return std::ranges::count(facts.prompts, source, &ProbedPrompt::source);
}

TEST_F(ProbeTest, CompletesRandomPromptsWithTheSettingsOfTheRun) {
  options_.prompts = 30;
  const ProbeFacts facts = Probed();
  ASSERT_EQ(facts.prompts.size(), 30);
  EXPECT_EQ(facts.rows, 40);
  EXPECT_GT(facts.seconds, 0);
  EXPECT_EQ(facts.gold.tried, 30);
  EXPECT_EQ(facts.gold.failed, 0);
  EXPECT_EQ(facts.spoiled.tried, 30);
  EXPECT_EQ(facts.spoiled.failed, 0);
  double tokens = 0, sampled = 0, logprob = 0;
  for (const ProbedPrompt& prompt : facts.prompts) {
    ASSERT_EQ(prompt.completions.size(), 4);
    for (const EvalCompletion& one : prompt.completions) {
      EXPECT_LE(one.tokens, 8);
      tokens += static_cast<double>(one.tokens);
    }
  }
  for (const SampledTokens& sums : facts.sampled) {
    sampled += sums.tokens;
    logprob += sums.logprob;
  }
  EXPECT_EQ(sampled, tokens);
  // Weights of 0.02 hardly tell the 12 characters and the special tokens apart.
  EXPECT_NEAR(-logprob / sampled, std::log(14.0), 0.15);

  const auto answers_of = [](const ProbeFacts& of) {
    std::vector<std::string> answers;
    for (const ProbedPrompt& prompt : of.prompts)
      for (const EvalCompletion& one : prompt.completions) answers.push_back(one.answer);
    return answers;
  };
  EXPECT_EQ(answers_of(Probed()), answers_of(facts));
  options_.seed = 2;
  EXPECT_NE(answers_of(Probed()), answers_of(facts));
}

TEST_F(ProbeTest, NoPromptOfOneDatasetIsDrawnTwice) { EXPECT_EQ(Probed().prompts.size(), 40); }

TEST_F(ProbeTest, SourcesAreDrawnByTheirWeightsAndAShortOneBeginsAgain) {
  RunSettings& run = options_.config.run;
  run.data.prompts = "";
  SourceConfig& often = run.data.sources["often"];
  often.prompts = Rows("often", 60);
  often.weight = 3;
  SourceConfig& rare = run.data.sources["rare"];
  rare.prompts = Rows("rare", 4);
  rare.max_tokens = 2;
  options_.prompts = 40;
  const ProbeFacts facts = Probed();
  EXPECT_EQ(CountOf(facts, "often"), 30);
  EXPECT_EQ(CountOf(facts, "rare"), 10);
  std::int64_t longest = 0;
  for (const ProbedPrompt& prompt : facts.prompts) {
    for (const EvalCompletion& one : prompt.completions) {
      longest = std::max(longest, one.tokens);
      EXPECT_LE(one.tokens, prompt.source == "rare" ? 2 : 8);
    }
  }
  EXPECT_GT(longest, 2);
  options_.prompts = 200;
  EXPECT_EQ(Probed().prompts.size(), 64);
}

TEST_F(ProbeTest, PromptsThatAreTooLongAreLeftOut) {
  DataConfig& data = options_.config.run.data;
  data.max_prompt_tokens = 1;
  data.over_long = OverLong::kDrop;
  EXPECT_EQ(Probed().prompts.size(), 10);  // 0 to 9
  data.prompts = Rows("long", 5, "1+1=");
  EXPECT_THAT(RunProbe(options_, &kLocalModels).status().message(),
              HasSubstr("no prompt has at most"));
}

TEST_F(ProbeTest, AReferenceReadsTheSampledTokens) {
  const auto reference_of = [this](const std::string& folder) {
    options_.reference = folder;
    SampledTokens sums;
    for (const SampledTokens& of : Probed().sampled) {
      sums.tokens += of.tokens;
      sums.logprob += of.logprob;
      sums.reference.logprob += of.reference.logprob;
      sums.reference.entropy += of.reference.entropy;
    }
    return sums;
  };
  RunSettings& run = options_.config.run;
  run.model.path = Model("sharp", 0.5, 5);
  run.sampling.temperature = 0.7;
  const SampledTokens same = reference_of(run.model.path);
  EXPECT_NEAR(same.reference.logprob, same.logprob, 1e-4 * same.tokens);
  // The mean of -log p has the entropy as its expectation.
  EXPECT_NEAR(same.reference.entropy / same.tokens, -same.logprob / same.tokens, 0.1);
  EXPECT_LT(-same.logprob / same.tokens, 1.5);
  const SampledTokens flat = reference_of(Model("flat", 0.02, 6));
  EXPECT_NEAR(-flat.reference.logprob / flat.tokens, std::log(14.0), 0.15);
  EXPECT_NEAR(flat.reference.entropy / flat.tokens, std::log(14.0), 0.15);
  options_.reference = Model("other", 0.02, 6, "0123456789");
  EXPECT_THAT(RunProbe(options_, &kLocalModels).status().message(),
              HasSubstr("with the same tokenizer"));
}

TEST_F(ProbeTest, AProbeContinuesAndGrows) {
  options_.results = Path("results");
  options_.prompts = 10;
  EXPECT_EQ(Probed().prompts.size(), 10);
  options_.prompts = 15;
  const ProbeFacts more = Probed();
  EXPECT_EQ(more.prompts.size(), 15);
  EXPECT_EQ(more.sampled.size(), 5);
  options_.config.run.sampling.group_size = 32;  // another group size is no other sample
  EXPECT_TRUE(Probed().sampled.empty());
  options_.config.run.sampling.temperature = 0.5;
  EXPECT_THAT(RunProbe(options_, &kLocalModels).status().message(),
              HasSubstr("data_reward_and_sampling_sha256"));
}

}  // namespace
}  // namespace buttress
