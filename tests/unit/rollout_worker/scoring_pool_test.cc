#include "rollout_worker/scoring/scoring_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <limits>
#include <map>
#include <set>

#include "tests/support/fakes/byte_tokenizer.h"

namespace buttress {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr milliseconds kLong(20000);

// Token 256 is special and ends a sequence; larger ids do not decode.
class EndTokenizer : public ByteTokenizer {
 public:
  Result<std::string> Decode(std::span<const std::int32_t> tokens,
                             SpecialTokens special) const override {
    std::string text;
    for (const std::int32_t token : tokens) {
      if (token > 256) return OutOfRange("token " + std::to_string(token));
      if (token < 256) text.push_back(static_cast<char>(token));
      if (token == 256 && special == SpecialTokens::kKeep) text += "<end>";
    }
    return text;
  }

  std::int32_t vocab_size() const override { return 257; }

  std::int32_t eos_token_id() const override { return 256; }
};

class FakeClock : public Clock {
 public:
  std::int64_t MonotonicMs() const override { return now_; }

  std::int64_t UnixMs() const override { return now_; }

  void Advance(std::int64_t ms) { now_ += ms; }

 private:
  std::atomic<std::int64_t> now_ = 0;
};

// Judges by a function. The verifier of every source is named "scripted".
class ScriptedVerifiers : public VerifierSet, public Verifier {
 public:
  explicit ScriptedVerifiers(std::function<Verdict(const VerifyRequest&)> judge)
      : judge_(std::move(judge)) {}

  const Verifier& For(std::string_view /*source*/) const override { return *this; }

  std::string_view NameFor(std::string_view /*source*/) const override { return "scripted"; }

  std::vector<std::string> names() const override { return {"scripted"}; }

  Verdict Verify(const VerifyRequest& request) const override { return judge_(request); }

 private:
  std::function<Verdict(const VerifyRequest&)> judge_;
};

// Gives each completion the number of the completions that it was judged with as its reward.
class CountingVerifiers : public VerifierSet, public Verifier {
 public:
  const Verifier& For(std::string_view /*source*/) const override { return *this; }

  std::string_view NameFor(std::string_view /*source*/) const override { return "counting"; }

  std::vector<std::string> names() const override { return {"counting"}; }

  bool whole_groups() const override { return true; }

  Verdict Verify(const VerifyRequest& request) const override {
    return VerifyGroup({&request, 1}).front();
  }

  std::vector<Verdict> VerifyGroup(std::span<const VerifyRequest> requests) const override {
    Verdict verdict = Wrong(std::string(requests.front().prompt), "");
    verdict.raw_reward = static_cast<double>(requests.size());
    return std::vector<Verdict>(requests.size(), verdict);
  }
};

ScoreRequest Request(std::int32_t index, std::string_view response,
                     FinishReason reason = FinishReason::kStop) {
  ScoreRequest request{.samples = {},
                       .sampling = {},
                       .source = "puzzle",
                       .prompt = "71>08:",
                       .answer = "7 1 > 8",
                       .extra_json = "{}"};
  EngineResult& sample = request.samples.emplace_back();
  sample.id = {.group_id = 3, .lease_epoch = 1, .index = index};
  sample.token_ids.assign(response.begin(), response.end());
  if (reason == FinishReason::kStop) sample.token_ids.push_back(256);
  sample.finish_reason = reason;
  return request;
}

class ScoringPoolTest : public ::testing::Test {
 protected:
  std::unique_ptr<ScoringPool> StartReal(const ScoringOptions& options) {
    RewardConfig config;
    config.verifier = "countdown";
    auto set = VerifierSet::Make(config);
    EXPECT_TRUE(set.ok());
    return ScoringPool::Start(*std::move(set), tokenizer_, options, metrics_);
  }

  std::unique_ptr<ScoringPool> StartScripted(std::function<Verdict(const VerifyRequest&)> judge,
                                             const ScoringOptions& options = {}) {
    return ScoringPool::Start(std::make_unique<ScriptedVerifiers>(std::move(judge)), tokenizer_,
                              options, metrics_, clock_);
  }

  // Returns the one completion that is scored.
  static Verdict ScoreOne(ScoringPool& pool, ScoreRequest request) {
    EXPECT_TRUE(pool.Submit(request).ok());
    const std::vector<ScoredCompletion> scored = pool.Poll(kLong);
    EXPECT_EQ(scored.size(), 1U);
    return scored.empty() ? Verdict() : scored.front().verdict;
  }

  EndTokenizer tokenizer_;
  Metrics metrics_{"worker"};
  FakeClock clock_;
};

TEST_F(ScoringPoolTest, ScoresEveryCompletionOnceOnSeveralThreads) {
  const auto pool = StartReal({.threads = 3, .timeout = kLong, .capacity = 64});
  std::map<std::int32_t, Verdict> scored;
  const auto take = [&](milliseconds timeout) {
    for (ScoredCompletion& one : pool->Poll(timeout)) {
      EXPECT_TRUE(scored.emplace(one.sample.id.index, one.verdict).second) << one.sample.id.index;
    }
  };
  for (std::int32_t i = 0; i < 1000; ++i) {
    ScoreRequest request = Request(i, i % 4 == 0 ? "7+1" : "7-1");
    while (!pool->Submit(request).ok()) take(kLong);
  }
  while (pool->inside() > 0) take(kLong);
  ASSERT_EQ(scored.size(), 1000U);
  for (const auto& [index, verdict] : scored) {
    const bool right = index % 4 == 0;
    EXPECT_EQ(verdict.outcome, right ? Outcome::kCorrect : Outcome::kWrong);
    EXPECT_EQ(verdict.raw_reward, right ? 1 : 0);
    EXPECT_EQ(TotalReward(verdict), verdict.raw_reward);
    EXPECT_EQ(verdict.given, right ? "7+1 = 8" : "7-1 = 6");
    ASSERT_EQ(verdict.parts.size(), 1U);
    EXPECT_EQ(verdict.parts[0].name, "countdown");
  }
  const std::string exposed = metrics_.Expose();
  EXPECT_THAT(
      exposed,
      HasSubstr(
          "buttress_worker_verifier_results_total{result=\"correct\",verifier=\"countdown\"} 250"));
  EXPECT_THAT(
      exposed,
      HasSubstr(
          "buttress_worker_verifier_results_total{result=\"wrong\",verifier=\"countdown\"} 750"));
  EXPECT_THAT(exposed,
              HasSubstr("buttress_worker_verifier_seconds_count{verifier=\"countdown\"} 1000"));
}

// An episode that ended in itself, with one answer.
ScoreRequest EpisodeRequest(const std::string& answer, std::optional<double> reward,
                            const std::string& failure = "") {
  Episode episode;
  EpisodeBranch branch;
  branch.token_ids = {1, 2, 3, 4};
  branch.segments = {{1, {1, 6, ""}}};
  EpisodeTurn turn;
  turn.begin = 1;
  turn.end = 4;
  branch.turns.push_back(turn);
  episode.branches.push_back(branch);
  episode.answer = answer;
  episode.reward = reward;
  episode.failure = failure;
  ScoreRequest request = Request(0, "");
  request.samples[0].episode = std::make_shared<Episode>(episode);
  return request;
}

TEST_F(ScoringPoolTest, TheLastAnswerOfAnEpisodeIsJudgedUnlessTheEpisodeHasAReward) {
  int judged = 0;
  const auto pool = StartScripted(
      [&](const VerifyRequest& request) {
        ++judged;
        EXPECT_EQ(request.tokens, 3);
        EXPECT_EQ(request.step, 6);
        return request.response == "8" ? Correct("8", "8") : Wrong("", "8");
      },
      {.correct_from = 0.5});
  EXPECT_EQ(ScoreOne(*pool, EpisodeRequest("8", {})).outcome, Outcome::kCorrect);
  EXPECT_EQ(ScoreOne(*pool, EpisodeRequest("9", {})).outcome, Outcome::kWrong);
  EXPECT_EQ(judged, 2);
  const Verdict half = ScoreOne(*pool, EpisodeRequest("9", 0.5));
  EXPECT_EQ(half.outcome, Outcome::kCorrect);
  EXPECT_EQ(half.raw_reward, 0.5);
  EXPECT_EQ(TotalReward(half), 0.5);
  const Verdict low = ScoreOne(*pool, EpisodeRequest("8", -2));
  EXPECT_EQ(low.outcome, Outcome::kWrong);
  EXPECT_EQ(low.raw_reward, -2);
  EXPECT_EQ(judged, 2);
  const Verdict failed = ScoreOne(*pool, EpisodeRequest("8", 1, "the agent crashed"));
  EXPECT_EQ(failed.outcome, Outcome::kUnscorable);
  EXPECT_EQ(failed.unscorable_reason, "the agent crashed");
  EXPECT_THAT(ScoreOne(*pool, EpisodeRequest("8", 1e9)).unscorable_reason,
              HasSubstr("raw reward 1000000000 "));
  ScoreRequest empty = EpisodeRequest("", {});
  empty.samples[0].episode = std::make_shared<Episode>();
  EXPECT_THAT(ScoreOne(*pool, std::move(empty)).unscorable_reason, HasSubstr("before the policy"));
}

TEST_F(ScoringPoolTest, InASumTheRewardOfAnEpisodeTakesThePlaceOfTheFirstPart) {
  RewardConfig config;
  config.verifier = "countdown + 0.5 * length";
  config.length = {.unit = LengthUnit::kTokens, .min = 1, .max = 4};
  auto set = VerifierSet::Make(config);
  ASSERT_TRUE(set.ok()) << set.status().ToString();
  const auto pool = ScoringPool::Start(*std::move(set), tokenizer_, {.sums = true}, metrics_);
  const Verdict verdict = ScoreOne(*pool, EpisodeRequest("7-1", 3));
  EXPECT_EQ(verdict.outcome, Outcome::kCorrect);
  EXPECT_EQ(verdict.raw_reward, 3);
  ASSERT_EQ(verdict.parts.size(), 2U);
  EXPECT_EQ(verdict.parts[0].raw_reward, 3);
  EXPECT_EQ(TotalReward(verdict), 3 + 0.5 * verdict.parts[1].raw_reward);
  ScoreRequest without = EpisodeRequest("7-1", 3);
  without.answer = "nonsense";
  EXPECT_EQ(ScoreOne(*pool, std::move(without)).raw_reward, 3) << "countdown cannot judge it";
}

TEST_F(ScoringPoolTest, NoiseTurnsWhatIsStoredAndNotWhatIsSaidOfTheVerifier) {
  const auto second =
      std::make_shared<SecondVerifier>(*MakeVerifier("countdown", {}), "countdown", 1.0, metrics_);
  const RewardNoiseConfig config = {.false_positive = 1, .false_negative = 0};
  const auto pool = StartReal(
      {.timeout = kLong, .second = second, .noise = RewardNoise::Make(config, 7, metrics_)});
  const Verdict verdict = ScoreOne(*pool, Request(0, "7-1"));
  EXPECT_EQ(verdict.outcome, Outcome::kCorrect);
  EXPECT_EQ(verdict.raw_reward, 1);
  EXPECT_EQ(TotalReward(verdict), 1);
  ASSERT_EQ(verdict.parts.size(), 1U);
  EXPECT_EQ(verdict.parts[0].raw_reward, 1);
  const std::string exposed = metrics_.Expose();
  EXPECT_THAT(exposed, HasSubstr("_verifier_results_total{result=\"wrong\","
                                 "verifier=\"countdown\"} 1"));
  EXPECT_THAT(exposed, HasSubstr("_second_verdicts_total{result=\"agree\","
                                 "second=\"countdown\"} 1"));
  EXPECT_THAT(exposed, HasSubstr("buttress_worker_reward_noise_total{error=\"false_positive\"} 1"));
}

TEST_F(ScoringPoolTest, ASumKeepsTheRawOutcomeAndIsCountedByPart) {
  RewardConfig config;
  config.by_source = {{"puzzle", "countdown + 0.5 * length - 0.25 * exact"}};
  config.length = {.unit = LengthUnit::kTokens, .min = 1, .max = 4};
  auto set = VerifierSet::Make(config);
  ASSERT_TRUE(set.ok()) << set.status().ToString();
  const auto pool = ScoringPool::Start(*std::move(set), tokenizer_, {.timeout = kLong}, metrics_);
  const Verdict verdict = ScoreOne(*pool, Request(0, "7-1"));
  EXPECT_EQ(verdict.outcome, Outcome::kWrong);
  EXPECT_EQ(verdict.raw_reward, 0);
  EXPECT_EQ(TotalReward(verdict), 0.5);
  std::vector<std::tuple<std::string, double, double>> parts;
  for (const VerdictPart& part : verdict.parts)
    parts.emplace_back(part.name, part.raw_reward, part.weight);
  EXPECT_THAT(parts, ElementsAre(std::tuple("countdown", 0, 1), std::tuple("length", 1, 0.5),
                                 std::tuple("exact", 0, -0.25)));
  const std::string exposed = metrics_.Expose();
  EXPECT_THAT(
      exposed,
      HasSubstr(
          "buttress_worker_verifier_results_total{result=\"wrong\",verifier=\"countdown\"} 1"));
  EXPECT_THAT(
      exposed,
      HasSubstr(
          "buttress_worker_verifier_results_total{result=\"correct\",verifier=\"length\"} 1"));
  EXPECT_THAT(exposed, HasSubstr("buttress_worker_verifier_seconds_count{verifier=\"exact\"} 1"));
}

TEST_F(ScoringPoolTest, AVerifierIsToldTokensAndProgressAndMayNotApply) {
  std::vector<std::int32_t> token_ids;
  std::int64_t step = 0;
  std::int64_t steps = 0;
  const auto pool = StartScripted(
      [&](const VerifyRequest& request) {
        token_ids.assign(request.token_ids.begin(), request.token_ids.end());
        step = request.step;
        steps = request.steps;
        return NotApplicable("not for this row");
      },
      {.timeout = kLong});
  pool->SetSteps(30);
  ScoreRequest request = Request(0, "7");
  request.samples.front().segments = {{0, {1, 11, ""}}, {1, {1, 12, ""}}};
  EXPECT_EQ(ScoreOne(*pool, request).outcome, Outcome::kUnscorable);
  EXPECT_EQ(token_ids, (std::vector<std::int32_t>{'7', 256}));
  EXPECT_EQ(step, 12);
  EXPECT_EQ(steps, 30);
  EXPECT_THAT(metrics_.Expose(), HasSubstr("_verifier_results_total{result=\"not_applicable\","));
}

TEST_F(ScoringPoolTest, AGroupIsJudgedInOneCallWhateverThreadsThereAre) {
  constexpr std::int32_t kGroups = 50, kSize = 4;
  const auto pool =
      ScoringPool::Start(std::make_unique<CountingVerifiers>(), tokenizer_,
                         {.threads = 3, .timeout = kLong, .capacity = kGroups}, metrics_);
  EXPECT_TRUE(pool->WantsGroups("puzzle"));
  EXPECT_FALSE(StartReal({})->WantsGroups("puzzle"));
  for (std::int32_t group = 0; group < kGroups; ++group) {
    ScoreRequest request = Request(0, "a");
    request.prompt = std::to_string(group);
    for (std::int32_t i = 1; i < kSize; ++i)
      request.samples.push_back(Request(i, "b").samples.front());
    for (EngineResult& sample : request.samples)
      sample.id.group_id = static_cast<std::uint64_t>(group);
    request.samples[2].token_ids.push_back(1000);  // cannot be decoded
    ASSERT_TRUE(pool->Submit(request).ok());
  }
  std::set<SampleId> scored;
  while (pool->inside() > 0) {
    for (const auto& [sample, verdict, second] : pool->Poll(kLong)) {
      EXPECT_TRUE(scored.insert(sample.id).second);
      if (sample.id.index == 2) {
        EXPECT_EQ(verdict.unscorable_reason, "decode: token 1000");
        continue;
      }
      EXPECT_EQ(verdict.raw_reward, kSize) << "the one without a text is part of the call";
      EXPECT_EQ(verdict.given, std::to_string(sample.id.group_id));
    }
  }
  EXPECT_EQ(scored.size(), static_cast<std::size_t>(kGroups * kSize));
}

TEST_F(ScoringPoolTest, SubmitRefusesBeyondItsCapacityAndKeepsTheRequest) {
  std::latch go(1);
  const auto pool = StartScripted(
      [&go](const VerifyRequest&) {
        go.wait();
        return Wrong("", "");
      },
      {.threads = 1, .timeout = kLong, .capacity = 2});
  ScoreRequest first = Request(0, "a");
  ScoreRequest second = Request(1, "b");
  ScoreRequest third = Request(2, "c");
  EXPECT_TRUE(pool->Submit(first).ok());
  EXPECT_TRUE(pool->Submit(second).ok());
  EXPECT_EQ(pool->Submit(third).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(third.answer, "7 1 > 8");
  EXPECT_EQ(third.samples.front().token_ids.size(), 2U);
  go.count_down();
  std::size_t polled = 0;
  while (polled < 2) polled += pool->Poll(kLong).size();
  EXPECT_EQ(pool->inside(), 0U);
  EXPECT_TRUE(pool->Submit(third).ok());
}

TEST_F(ScoringPoolTest, ACompletionThatExceedsTheTimeoutIsUnscorable) {
  const auto pool = StartScripted(
      [this](const VerifyRequest&) {
        clock_.Advance(101);
        return Correct("8", "8");
      },
      {.threads = 1, .timeout = milliseconds(100), .capacity = 4});
  const Verdict verdict = ScoreOne(*pool, Request(0, "8"));
  EXPECT_EQ(verdict.outcome, Outcome::kUnscorable);
  EXPECT_EQ(verdict.unscorable_reason, TimeoutReason(100));
  EXPECT_THAT(verdict.unscorable_reason, HasSubstr("run.reward.timeout_ms = 100; raise it"));
  EXPECT_EQ(TotalReward(verdict), 0);
  EXPECT_THAT(
      metrics_.Expose(),
      HasSubstr(
          "buttress_worker_verifier_results_total{result=\"timeout\",verifier=\"scripted\"} 1"));
}

class PatientVerifiers : public ScriptedVerifiers {
 public:
  using ScriptedVerifiers::ScriptedVerifiers;

  bool bounds_time() const override { return true; }
};

TEST_F(ScoringPoolTest, AVerifierThatBoundsItsTimeItselfIsNeverLate) {
  const auto judge = [this](const VerifyRequest&) {
    clock_.Advance(101);
    return Correct("8", "8");
  };
  const auto pool = ScoringPool::Start(std::make_unique<PatientVerifiers>(judge), tokenizer_,
                                       {.threads = 1, .timeout = milliseconds(100), .capacity = 4},
                                       metrics_, clock_);
  EXPECT_EQ(ScoreOne(*pool, Request(0, "8")).outcome, Outcome::kCorrect);
}

TEST_F(ScoringPoolTest, ACompletionThatCannotBeJudgedIsUnscorableWithItsReason) {
  const auto pool = StartScripted([](const VerifyRequest& request) {
    Verdict verdict = Unscorable("the judge is asleep");
    if (request.response == "inf") verdict = Correct("", "");
    if (request.response == "inf") verdict.raw_reward = std::numeric_limits<double>::infinity();
    if (request.response == "huge") verdict = Correct("", "");
    if (request.response == "huge") verdict.raw_reward = 1e308;
    if (request.response == "long") verdict = Unscorable(std::string(5 << 20, 'x'));
    return verdict;
  });
  EXPECT_EQ(ScoreOne(*pool, Request(0, "x")).unscorable_reason, "the judge is asleep");
  EXPECT_EQ(ScoreOne(*pool, Request(0, "inf")).unscorable_reason,
            "the verifier gave raw reward inf and reward inf; expected numbers in [-1000000, "
            "1000000]");
  EXPECT_EQ(ScoreOne(*pool, Request(0, "huge")).outcome, Outcome::kUnscorable);
  EXPECT_EQ(ScoreOne(*pool, Request(0, "long")).unscorable_reason.size(), 1024);
  EXPECT_EQ(ScoreOne(*pool, Request(0, "x", FinishReason::kAbort)).unscorable_reason,
            "generation did not finish");
  ScoreRequest undecodable = Request(0, "x");
  undecodable.samples.front().token_ids.push_back(1000);
  const Verdict verdict = ScoreOne(*pool, undecodable);
  EXPECT_EQ(verdict.outcome, Outcome::kUnscorable);
  EXPECT_EQ(verdict.unscorable_reason, "decode: token 1000");
}

TEST_F(ScoringPoolTest, TheVerifierReceivesTheResponseWithoutItsStopTokenAndTruncation) {
  const auto pool = StartScripted([](const VerifyRequest& request) {
    return Wrong(std::string(request.response) + (request.truncated ? "|cut" : "|whole"), "");
  });
  EXPECT_EQ(ScoreOne(*pool, Request(0, "ab;")).given, "ab;|whole");
  EXPECT_EQ(ScoreOne(*pool, Request(0, "ab;", FinishReason::kLength)).given, "ab;|cut");
  ScoreRequest stopped = Request(0, "ab;");
  stopped.samples.front().token_ids.pop_back();
  stopped.sampling.stop_token_ids = {';'};
  EXPECT_EQ(ScoreOne(*pool, stopped).given, "ab|whole");
}

TEST_F(ScoringPoolTest, ExtractedAnswersAreBoundedAndStayUtf8) {
  const auto pool = StartScripted([](const VerifyRequest&) {
    std::string long_answer = "x";
    for (int i = 0; i < 200; ++i) long_answer += "é";
    return Wrong(long_answer, "");
  });
  const std::string answer = ScoreOne(*pool, Request(0, "x")).given;
  EXPECT_EQ(answer.size(), 255U);
  EXPECT_TRUE(answer.ends_with("é"));
}

TEST_F(ScoringPoolTest, StopsWithPendingWork) {
  auto pool = StartReal({.threads = 2, .timeout = kLong, .capacity = 1000});
  for (std::int32_t i = 0; i < 1000; ++i) {
    ScoreRequest request = Request(i, "7+1");
    ASSERT_TRUE(pool->Submit(request).ok());
  }
  pool.reset();
}

}  // namespace
}  // namespace buttress
