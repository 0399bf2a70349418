#include "lib/config/sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/config/load.h"
#include "lib/config/run_identity.h"

namespace buttress::sources_test {
namespace {

using ::testing::HasSubstr;

constexpr char kTwo[] = R"(run:
  data:
    max_prompt_tokens: 900
    system_prompt: Be brief.
    chat_template: true
    answer_field: solution
    sources:
      math:
        prompts: math.jsonl
        weight: 3
        template_arguments: {enable_thinking: false}
        max_tokens: 64
        verifier: math
      code:
        prompts: code.parquet
        answer_field: ""
        system_prompt: ""
        chat_template: false
        max_prompt_tokens: 500
        over_long: drop
        verifier: code
  model: {path: m}
)";

Result<RunConfig> Parse(const std::vector<std::string>& overrides = {}) {
  return ParseRunConfig(kTwo, "two.yaml", overrides);
}

std::string Refusal(const std::vector<std::string>& overrides) {
  const auto config = Parse(overrides);
  EXPECT_FALSE(config.ok());
  return config.status().message();
}

TEST(SourcesTest, ASourceHasTheSettingsOfTheRunWhereItHasNoneOfItsOwn) {
  const auto config = Parse();
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  const auto datasets = DatasetsOf(config->run);
  ASSERT_EQ(datasets.size(), 2u);
  const PromptDataset &code = datasets[0], &math = datasets[1];
  EXPECT_EQ(code.name, "code");
  EXPECT_EQ(code.section, "run.data.sources.code");
  EXPECT_EQ(code.data.prompts, "code.parquet");
  EXPECT_EQ(code.weight, 1);
  EXPECT_EQ(code.data.answer_field, "");
  EXPECT_EQ(code.data.system_prompt, "");
  EXPECT_FALSE(code.data.chat_template);
  EXPECT_EQ(code.data.max_prompt_tokens, 500);
  EXPECT_EQ(code.data.over_long, OverLong::kDrop);
  EXPECT_EQ(code.max_tokens, config->run.sampling.max_tokens);
  EXPECT_EQ(math.weight, 3);
  EXPECT_EQ(math.data.answer_field, "solution");
  EXPECT_EQ(math.data.system_prompt, "Be brief.");
  EXPECT_TRUE(math.data.chat_template);
  EXPECT_EQ(math.data.template_arguments.at("enable_thinking"), "false");
  EXPECT_EQ(math.data.max_prompt_tokens, 900);
  EXPECT_EQ(math.data.over_long, OverLong::kRefuse);
  EXPECT_EQ(math.max_tokens, 64);
}

TEST(SourcesTest, OneDatasetIsTheOneOfTheRun) {
  const auto config = ParseRunConfig("run: {data: {prompts: p}, model: {path: m}}", "a.yaml", {});
  ASSERT_TRUE(config.ok());
  const auto datasets = DatasetsOf(config->run);
  ASSERT_EQ(datasets.size(), 1u);
  EXPECT_EQ(datasets[0].name, "");
  EXPECT_EQ(datasets[0].section, "run.data");
  EXPECT_EQ(datasets[0].data.prompts, "p");
  EXPECT_EQ(datasets[0].max_tokens, 256);
}

TEST(SourcesTest, VerifiersOfSourcesAreThoseOfTheReward) {
  const auto config = Parse({"run.reward.by_source={other: number, math: math}"});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  const std::map<std::string, std::string> expected = {
      {"code", "code"}, {"math", "math"}, {"other", "number"}};
  EXPECT_EQ(config->run.reward.by_source, expected);
  EXPECT_THAT(Refusal({"run.reward.by_source.math=number"}),
              HasSubstr("run.data.sources.math.verifier = math: run.reward.by_source.math is "
                        "number; give one of them"));
  EXPECT_THAT(Refusal({"run.data.sources.math.verifier=mth"}), HasSubstr("mth"));
}

TEST(SourcesTest, APrintedConfigurationBindsToTheSameSources) {
  const auto config = Parse();
  ASSERT_TRUE(config.ok());
  const auto again = ParseRunConfig(PrintRunConfig(*config), "printed", {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(PrintRunConfig(*again), PrintRunConfig(*config));
  EXPECT_EQ(again->run.data.sources.at("code").answer_field, "");
  EXPECT_EQ(again->run.data.sources.at("math").answer_field, std::nullopt);
  EXPECT_EQ(RunConfigHash(*again), RunConfigHash(*config));
}

TEST(SourcesTest, OneSettingOfASourceCanBeSet) {
  const auto config =
      Parse({"run.data.sources.math.weight=0.5", "run.data.sources.new={prompts: n.csv}"});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->run.data.sources.at("math").weight, 0.5);
  EXPECT_EQ(config->run.data.sources.at("math").prompts, "math.jsonl");
  EXPECT_EQ(config->run.data.sources.at("new").prompts, "n.csv");
}

TEST(SourcesTest, EpochsGiveTheLengthInsteadOfSteps) {
  const auto config = Parse({"run.epochs=3", "run.batch.prompts=8"});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->run.steps, 0);
  EXPECT_EQ(StepsOf(config->run, 15), 6);  // 45 prompts
  EXPECT_EQ(StepsOf(config->run, 16), 6);
  EXPECT_EQ(StepsOf(config->run, 17), 7);
  RunConfig computed = *config;
  computed.run.steps = 6;
  EXPECT_EQ(RunConfigHash(computed), RunConfigHash(*config));
  EXPECT_TRUE(ChangesOf(computed, *config).empty());
  const auto again = ParseRunConfig(PrintRunConfig(computed), "printed", {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(PrintRunConfig(*again), PrintRunConfig(*config));
  const auto longer = Parse({"run.epochs=4", "run.batch.prompts=8"});
  EXPECT_EQ(RunIdentityHash(*longer), RunIdentityHash(*config));
  EXPECT_NE(RunConfigHash(*longer), RunConfigHash(*config));
  EXPECT_THAT(Refusal({"run.epochs=3", "run.steps=100"}),
              HasSubstr("run.steps and run.epochs both give the length"));
  EXPECT_THAT(Refusal({"run.epochs=-1"}), HasSubstr("run.epochs = -1: between 0 and"));
  EXPECT_THAT(Refusal({"run.steps=0"}), HasSubstr("run.steps = 0: 1 or more"));
  EXPECT_EQ(StepsOf(Parse({"run.steps=7"})->run, 15), 7);
}

TEST(SourcesTest, ErrorsNameTheSourceAndTheLine) {
  const auto config = ParseRunConfig(
      "run:\n  data:\n    sources:\n      a: {prompts: p, wieght: 2}\n      b: text\n      c: "
      "{max_tokens: many}\n      a: {prompts: q}\n  model: {path: m}\n",
      "b.yaml", {});
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(
      config.status().message(),
      testing::AllOf(HasSubstr("b.yaml:4: run.data.sources.a.wieght: unknown key; did you mean"),
                     HasSubstr("b.yaml:5: run.data.sources.b: expected a section"),
                     HasSubstr("b.yaml:6: run.data.sources.c.max_tokens: expected an integer"),
                     HasSubstr("b.yaml:7: run.data.sources.a: the name appears twice")));
}

TEST(SourcesTest, ValuesThatCannotBeUsedAreRefused) {
  EXPECT_THAT(Refusal({"run.data.prompts=p"}),
              HasSubstr("run.data.prompts = p: run.data.sources names datasets as well"));
  EXPECT_THAT(Refusal({"run.data.sources.math.weight=0"}),
              HasSubstr("run.data.sources.math.weight = 0: above 0"));
  EXPECT_THAT(Refusal({"run.data.sources.math.prompts="}),
              HasSubstr("run.data.sources.math.prompts = : name a file or folder"));
  EXPECT_THAT(Refusal({"run.data.sources.math.max_tokens=257"}),
              HasSubstr("run.data.sources.math.max_tokens = 257: between 1 and 256"));
  EXPECT_THAT(Refusal({"run.data.sources.code.max_prompt_tokens=901"}),
              HasSubstr("run.data.sources.code.max_prompt_tokens = 901: between 1 and 900"));
  EXPECT_THAT(Refusal({"run.data.sources={a/b: {prompts: p}}"}),
              HasSubstr("run.data.sources = a/b: a name of letters, digits, _ and -"));
  const auto none = ParseRunConfig("run: {model: {path: m}}", "a.yaml", {});
  EXPECT_THAT(none.status().message(), HasSubstr("or several in run.data.sources"));
}

}  // namespace
}  // namespace buttress::sources_test
