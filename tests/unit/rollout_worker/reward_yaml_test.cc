// Rewards that a run's YAML selects by data source, on public data: GSM8K's labelled model outputs,
// and MATH's solutions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/config/load.h"
#include "rollout_worker/scoring/scoring_pool.h"
#include "tests/support/datasets.h"
#include "tests/support/fakes/byte_tokenizer.h"

namespace buttress {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::size_t kRows = 50;

constexpr char kYaml[] = R"(
run:
  data: {prompts: p.jsonl}
  model: {path: m}
  reward:
    verifier: exact
    threads: 2
    timeout_ms: 20000
    by_source:
      gsm8k: math + 0.25 * length
      math: math + 0.25 * length
    length: {unit: words, min: 1, max: 100000}
)";

std::vector<json> Rows(const std::string& path) {
  std::vector<json> rows;
  std::ifstream lines(path);
  for (std::string line; rows.size() < kRows && std::getline(lines, line);)
    rows.push_back(json::parse(line));
  return rows;
}

class RewardYaml : public ::testing::Test {
 protected:
  void Submit(const std::string& source, const std::string& response, const std::string& answer,
              Outcome expected) {
    ScoreRequest request;
    EngineResult& sample = request.samples.emplace_back();
    sample.id.index = static_cast<std::int32_t>(expected_.size());
    request.source = source;
    request.answer = answer;
    sample.token_ids.assign(response.begin(), response.end());
    for (std::int32_t& token : sample.token_ids) token &= 0xff;
    sample.finish_reason = FinishReason::kStop;
    expected_.push_back(expected);
    ASSERT_TRUE(pool_->Submit(request).ok());
  }

  ByteTokenizer tokenizer_;
  Metrics metrics_{"worker"};
  std::unique_ptr<ScoringPool> pool_;
  std::vector<Outcome> expected_;
};

TEST_F(RewardYaml, ScoresGsm8kAndMathByTheirSources) {
  const std::string gsm8k = DataSetPath("gsm8k/example_model_solutions.jsonl");
  const std::string math = DataSetPath("math/test.jsonl");
  if (!std::filesystem::exists(gsm8k) || !std::filesystem::exists(math))
    GTEST_SKIP() << gsm8k << " or " << math
                 << " is absent; set BUTTRESS_DATA to the folder of the data sets";
  const Result<RunConfig> config = ParseRunConfig(kYaml, "run.yaml", {});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  auto verifiers = VerifierSet::Make(config->run.reward);
  ASSERT_TRUE(verifiers.ok()) << verifiers.status().ToString();
  pool_ = ScoringPool::Start(*std::move(verifiers), tokenizer_,
                             {.threads = 2, .timeout = std::chrono::milliseconds(20000)}, metrics_);
  for (const json& row : Rows(gsm8k)) {
    const json& sample = row["175b_verification"];
    Submit("gsm8k", sample["solution"], row["ground_truth"],
           sample["is_correct"] ? Outcome::kCorrect : Outcome::kWrong);
  }
  for (const json& row : Rows(math))
    Submit("math", row["solution"], row["solution"], Outcome::kCorrect);
  ASSERT_EQ(expected_.size(), 2 * kRows);
  std::size_t scored = 0;
  while (scored < expected_.size()) {
    for (const ScoredCompletion& one : pool_->Poll(std::chrono::milliseconds(20000))) {
      const auto index = static_cast<std::size_t>(one.sample.id.index);
      EXPECT_EQ(one.verdict.outcome, expected_[index])
          << index << " " << one.verdict.unscorable_reason;
      EXPECT_EQ(TotalReward(one.verdict), one.verdict.raw_reward + 0.25);
      ++scored;
    }
  }
  const auto correct = std::count(expected_.begin(), expected_.end(), Outcome::kCorrect);
  EXPECT_GT(correct, static_cast<std::ptrdiff_t>(kRows));
  EXPECT_THAT(
      metrics_.Expose(),
      HasSubstr("buttress_worker_verifier_results_total{result=\"correct\",verifier=\"math\"} " +
                std::to_string(correct) + "\n"));
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr("buttress_worker_verifier_seconds_count{verifier=\"length\"} 100"));
}

TEST(RewardYamlErrors, AnUnusableRewardIsReportedWithItsKey) {
  const Result<RunConfig> config =
      ParseRunConfig(kYaml, "run.yaml", {"run.reward.by_source.gsm8k=math + two * format"});
  EXPECT_THAT(config.status().message(),
              HasSubstr("run.reward.by_source.gsm8k = math + two * format: 'two' is not a weight"));
  EXPECT_THAT(ParseReward({"run.reward.code.language=rust"}).status().message(),
              HasSubstr("run.reward.code.language: 'rust' is unknown"));
  EXPECT_THAT(ParseReward({"run.steps=3"}).status().message(),
              HasSubstr("expected a setting of run.reward"));
}

}  // namespace
}  // namespace buttress
