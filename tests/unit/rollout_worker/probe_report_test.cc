#include "rollout_worker/evaluation/probe_report.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/text/random.h"

namespace buttress {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kCompletions = 16;

RunConfig Config() {
  RunConfig config;
  config.run.steps = 10;
  config.run.batch.prompts = 4;
  config.run.sampling.group_size = 8;
  return config;
}

// A prompt of which the first completions are right; each wrong one has an answer of its own.
ProbedPrompt Prompt(int right, const std::string& source = "default") {
  ProbedPrompt prompt{source, {}, true};
  for (int i = 0; i < kCompletions; ++i) {
    EvalCompletion& one = prompt.completions.emplace_back();
    one.outcome = i < right ? Outcome::kCorrect : Outcome::kWrong;
    one.reward = i < right ? 1 : 0;
    one.answer = i < right ? "42" : std::to_string(i);
    one.tokens = 10 + i;
  }
  return prompt;
}

// `shares` of 200 prompts, each with so many right completions.
ProbeFacts Facts(const std::vector<std::pair<int, int>>& counts) {
  ProbeFacts facts;
  for (const auto& [prompts, right] : counts)
    for (int i = 0; i < prompts; ++i) facts.prompts.push_back(Prompt(right));
  facts.rows = 1000;
  facts.seconds = 2;
  return facts;
}

std::vector<std::int64_t> SizesOf(const ProbeReport& report) {
  std::vector<std::int64_t> sizes;
  for (const GroupRate& rate : report.sizes) sizes.push_back(rate.size);
  return sizes;
}

TEST(ProbeReport, RatesAreThoseOfTheCompletions) {
  RunConfig config = Config();
  config.run.sampling.group_size = 12;
  const ProbeReport report = ReportOf(config, Facts({{100, 0}, {80, 8}, {20, 16}}));
  EXPECT_EQ(report.verdict, ProbeVerdict::kCanLearn);
  EXPECT_THAT(report.conclusion, HasSubstr("40.0 % (33.5 to 46.9) of the groups of 12 are mixed"));
  EXPECT_THAT(SizesOf(report), ElementsAre(4, 8, 12, 16, 32, 64));
  EXPECT_DOUBLE_EQ(report.mixed.mean, 0.4);  // 8 of 16 and 12 drawn: never constant
  EXPECT_DOUBLE_EQ(report.never.mean, 0.5);
  EXPECT_DOUBLE_EQ(report.always.mean, 0.1);
  EXPECT_DOUBLE_EQ(report.accuracy.mean, 0.3);
  EXPECT_DOUBLE_EQ(report.pass.at(16).mean, 0.5);
  EXPECT_DOUBLE_EQ(report.answered.mean, 1);
  EXPECT_DOUBLE_EQ(report.distinct.mean, (100 * 16 + 80 * 9 + 20 * 1) / 200.0);
  EXPECT_DOUBLE_EQ(report.wrong_mode.mean, (100 + 80) / 16.0 / 200);
  EXPECT_DOUBLE_EQ(report.tokens.mean, 17.5);
  EXPECT_EQ(report.median_tokens, 17);
  EXPECT_EQ(report.ninth_decile_tokens, 24);
  EXPECT_TRUE(std::isnan(report.entropy.mean));
  EXPECT_THAT(ProbeText(config, Facts({{2, 4}}), report), HasSubstr("not given by the server"));
  // 10 steps of 4 prompts, and 16 * 17.5 * 200 tokens in 2 seconds.
  EXPECT_DOUBLE_EQ(report.run_completions, 480);
  EXPECT_DOUBLE_EQ(report.run_tokens, 480 * 17.5);
  EXPECT_NEAR(report.run_seconds, 2.0 * 480 / 3200, 1e-12);
}

TEST(ProbeReport, ReplacedGroupsCostTokens) {
  RunConfig config = Config();
  const ProbeFacts facts = Facts({{150, 0}, {50, 8}});
  EXPECT_DOUBLE_EQ(ReportOf(config, facts).resampled, 1);
  EXPECT_THAT(ReportOf(config, facts).advice, Contains(HasSubstr("zero_variance: resample")));
  config.run.batch.zero_variance = ZeroVariancePolicy::kResample;
  const ProbeReport report = ReportOf(config, facts);
  EXPECT_NEAR(report.resampled, 4, 0.01);
  EXPECT_NEAR(report.run_completions, 4 * 320, 4);
  config.run.batch.resample.cap = 2;
  EXPECT_EQ(ReportOf(config, facts).resampled, 3);
  EXPECT_EQ(ReportOf(config, Facts({{200, 0}})).resampled, 3);
}

TEST(ProbeReport, ARunWithoutMixedGroupsCannotLearn) {
  const RunConfig config = Config();
  const ProbeReport hard = ReportOf(config, Facts({{200, 0}}));
  EXPECT_EQ(hard.verdict, ProbeVerdict::kCannotLearn);
  EXPECT_THAT(hard.conclusion, HasSubstr("too hard for the model"));
  EXPECT_THAT(ReportOf(config, Facts({{200, 16}})).conclusion, HasSubstr("solved already"));

  ProbeFacts cut = Facts({{200, 0}});
  for (ProbedPrompt& prompt : cut.prompts)
    for (EvalCompletion& one : prompt.completions) one.truncated = true;
  EXPECT_THAT(ReportOf(config, cut).conclusion, HasSubstr("raise it"));
  ProbeFacts silent = Facts({{200, 0}});
  for (ProbedPrompt& prompt : silent.prompts)
    for (EvalCompletion& one : prompt.completions) one.answer.clear();
  EXPECT_THAT(ReportOf(config, silent).conclusion, HasSubstr("found no answer in any completion"));
  for (ProbedPrompt& prompt : silent.prompts) prompt.has_answers = false;
  const ProbeReport function = ReportOf(config, silent);
  EXPECT_THAT(function.conclusion, HasSubstr("too hard for the model"));
  EXPECT_THAT(ProbeText(config, silent, function), HasSubstr("the verifier does not say"));
}

TEST(ProbeReport, FewPromptsWithoutASignalAreNoInformation) {
  const ProbeReport report = ReportOf(Config(), Facts({{40, 0}}));
  EXPECT_EQ(report.verdict, ProbeVerdict::kNoInformation);
  EXPECT_THAT(report.conclusion, HasSubstr("raise --prompts"));
}

TEST(ProbeReport, PartialCreditIsASignal) {
  ProbeFacts facts = Facts({{200, 0}});
  for (ProbedPrompt& prompt : facts.prompts)
    for (std::size_t i = 0; i < kCompletions; i += 2) prompt.completions[i].reward = 0.5;
  const ProbeReport report = ReportOf(Config(), facts);
  EXPECT_EQ(report.verdict, ProbeVerdict::kCanLearn);
  EXPECT_GT(report.mixed.mean, 0.98);
  EXPECT_EQ(report.sizes[3].size, 32);
  EXPECT_EQ(report.sizes[3].basis, RateBasis::kBound);
}

TEST(ProbeReport, ASizeThatNothingSaysAnythingAboutIsNotConcludedFrom) {
  RunConfig config = Config();
  config.run.sampling.group_size = 64;
  const ProbeReport some = ReportOf(config, Facts({{100, 0}, {100, 8}}));
  EXPECT_EQ(some.verdict, ProbeVerdict::kCanLearn);  // mixed at 16 is mixed at 64
  EXPECT_THAT(some.conclusion, HasSubstr("a --group-size of 32 or more says how many"));
  EXPECT_EQ(ReportOf(config, Facts({{200, 0}})).verdict, ProbeVerdict::kNoInformation);
}

TEST(ProbeReport, AnEstimatorThatUsesConstantGroupsLearnsFromThem) {
  RunConfig config = Config();
  config.run.algorithm.advantage = Estimator::kReinforcePp;
  const ProbeReport report = ReportOf(config, Facts({{100, 0}, {100, 16}}));
  EXPECT_EQ(report.verdict, ProbeVerdict::kNoInformation);
  EXPECT_THAT(report.conclusion, HasSubstr("reinforce_pp"));
  EXPECT_EQ(ReportOf(config, Facts({{200, 0}})).verdict, ProbeVerdict::kCannotLearn);
}

TEST(ProbeReport, ABrokenVerifierIsNamed) {
  ProbeFacts facts = Facts({{100, 0}, {100, 8}});
  facts.gold = {.tried = 200, .failed = 200, .example = "'\\boxed{7}' for the answer '7'"};
  const ProbeReport none = ReportOf(Config(), facts);
  EXPECT_EQ(none.verdict, ProbeVerdict::kCannotLearn);
  EXPECT_THAT(none.conclusion, HasSubstr("none of 200 reference answers right, as '\\boxed{7}'"));
  facts.gold.failed = 3;
  facts.spoiled = {.tried = 200, .failed = 5, .example = "x"};
  const ProbeReport some = ReportOf(Config(), facts);
  EXPECT_EQ(some.verdict, ProbeVerdict::kCanLearn);
  EXPECT_THAT(some.advice, Contains(HasSubstr("refuses 3 of 200 reference answers")));
  EXPECT_THAT(some.advice, Contains(HasSubstr("accepts 5 of 200 spoiled answers")));

  ProbeFacts unscorable = Facts({{200, 0}});
  for (ProbedPrompt& prompt : unscorable.prompts)
    for (EvalCompletion& one : prompt.completions) one.outcome = Outcome::kUnscorable;
  const ProbeReport mute = ReportOf(Config(), unscorable);
  EXPECT_EQ(mute.verdict, ProbeVerdict::kCannotLearn);
  EXPECT_THAT(mute.conclusion, HasSubstr("scored no completion"));
}

TEST(ProbeReport, AdviceSaysWhatTheIntervalsSupport) {
  const auto advice_of = [](const std::vector<std::pair<int, int>>& counts) {
    return ReportOf(Config(), Facts(counts)).advice;
  };
  EXPECT_THAT(advice_of({{150, 0}, {50, 4}}), Contains(HasSubstr("most prompts are never solved")));
  EXPECT_THAT(advice_of({{150, 16}, {50, 8}}),
              Contains(HasSubstr("most prompts are always solved")));
  EXPECT_THAT(advice_of({{200, 8}}), Contains(HasSubstr("mixed from 4 completions on: 9")));
  EXPECT_THAT(advice_of({{3, 8}, {37, 0}}), testing::Not(Contains(HasSubstr("resample"))));
  EXPECT_THAT(advice_of({{40, 0}}), ElementsAre(HasSubstr("most prompts are never solved")));
}

TEST(ProbeReport, SourcesHaveTheirOwnRates) {
  ProbeFacts facts;
  for (int i = 0; i < 30; ++i) {
    facts.prompts.push_back(Prompt(0, "hard"));
    facts.prompts.push_back(Prompt(8, "fine"));
  }
  const ProbeReport report = ReportOf(Config(), facts);
  EXPECT_EQ(report.sources.at("hard").mixed.mean, 0);
  EXPECT_GT(report.sources.at("fine").mixed.mean, 0.99);
  EXPECT_THAT(ProbeText(Config(), facts, report), HasSubstr("  fine                    30"));
  const auto json = nlohmann::json::parse(ProbeJson(Config(), facts, report));
  EXPECT_EQ(json["sources"]["hard"]["prompts"], 30);
  EXPECT_EQ(json["verdict"], "can learn");
  EXPECT_EQ(json["acr"]["64"]["basis"], "bound");
  EXPECT_EQ(json["acr"]["64"]["rate"]["mean"], nullptr);
  EXPECT_EQ(json["entropy"], nullptr);
}

TEST(ProbeReport, AReferenceIsComparedPerToken) {
  ProbeFacts facts = Facts({{2, 8}});
  facts.sampled = {{.tokens = 10, .logprob = -5, .reference = {.logprob = -9, .entropy = 12}},
                   {.tokens = 30, .logprob = -11, .reference = {.logprob = -23, .entropy = 28}}};
  EXPECT_TRUE(std::isnan(ReportOf(Config(), facts).reference_kl.mean));
  facts.reference = "base";
  const ProbeReport report = ReportOf(Config(), facts);
  EXPECT_DOUBLE_EQ(report.entropy.mean, 0.4);
  EXPECT_DOUBLE_EQ(report.reference_kl.mean, 0.4);
  EXPECT_DOUBLE_EQ(report.reference_entropy.mean, 1);
  EXPECT_THAT(ProbeText(Config(), facts, report), HasSubstr("against base\n  KL from it"));
  const auto json = nlohmann::json::parse(ProbeJson(Config(), facts, report));
  EXPECT_DOUBLE_EQ(json["reference"]["kl"]["mean"].get<double>(), 0.4);
}

TEST(RatioOf, IsTheRatioOfSums) {
  const std::vector<PromptSum> same = {{2, 1}, {4, 2}, {6, 3}};
  EXPECT_DOUBLE_EQ(RatioOf(same).mean, 2);
  EXPECT_DOUBLE_EQ(RatioOf(same).low, 2);
  EXPECT_TRUE(std::isnan(RatioOf({}).mean));
  EXPECT_TRUE(std::isnan(RatioOf(std::vector<PromptSum>{{2, 1}}).low));
}

// Entropies that differ by prompt, with completions of different lengths.
TEST(RatioOf, CoversTheTruth) {
  RandomStream random({7, 29});
  int hits = 0;
  constexpr int kProbes = 400;
  for (int i = 0; i < kProbes; ++i) {
    std::vector<PromptSum> prompts;
    for (int j = 0; j < 200; ++j) {
      const double tokens = 1 + static_cast<double>(random.Below(20));
      prompts.push_back({tokens * (0.5 + 0.3 * random.Normal()), tokens});
    }
    const MeanInterval ratio = RatioOf(prompts);
    hits += ratio.low <= 0.5 && 0.5 <= ratio.high ? 1 : 0;
  }
  EXPECT_GE(hits, 0.92 * kProbes);
  EXPECT_LE(hits, 0.98 * kProbes);
}

}  // namespace
}  // namespace buttress
