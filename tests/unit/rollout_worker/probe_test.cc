#include "rollout_worker/evaluation/probe.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/prepare/new_model.h"
#include "lib/base/os/file.h"
#include "lib/policy/transformer.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

class ProbeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    NewModelOptions model;
    model.characters = "0123456789+=";
    model.layers = 1;
    model.hidden = 32;
    model.heads = 1;
    model.intermediate = 64;
    model.max_positions = 32;
    RunSettings& run = options_.config.run;
    run.model.path = Path("model");
    ASSERT_TRUE(WriteNewModel(model, run.model.path).ok());
    const auto config = LoadModelConfig(run.model.path);
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    const auto random = Transformer::Random(*config, ModelDtype::kFloat32, {}, 5);
    ASSERT_TRUE(random.ok());
    ASSERT_TRUE(SaveModelFolder(**random, run.model.path, run.model.path).ok());
    run.data.prompts = Rows("prompts", 40);
    run.reward.verifier = "exact";
    run.sampling.max_tokens = 8;
    options_.completions = 4;
  }

  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }

  // A file of `count` prompts.
  std::string Rows(const std::string& name, int count, const std::string& prompt = "") const {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += nlohmann::json{{"prompt", prompt + std::to_string(i)}, {"answer", "7"}}.dump() + "\n";
    EXPECT_TRUE(WriteFileAtomic(Path(name), text).ok());
    return Path(name);
  }

  ProbeFacts Probed() const {
    auto facts = RunProbe(options_);
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
  EXPECT_THAT(RunProbe(options_).status().message(), HasSubstr("no prompt has at most"));
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
  EXPECT_THAT(RunProbe(options_).status().message(), HasSubstr("data_reward_and_sampling_sha256"));
}

}  // namespace
}  // namespace buttress
