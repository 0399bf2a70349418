#include "rollout_worker/held_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <utility>

#include "lib/experience/check.h"
#include "lib/experience/group.h"
#include "rollout_worker/worker.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/fakes/fake_scoring.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;

const PolicyVersion kOld{1, 3, std::string(32, 'a')};
const PolicyVersion kNew{1, 4, std::string(32, 'b')};

ScoredCompletion Scored(std::int32_t index, std::vector<Segment> segments, Verdict verdict) {
  ScoredCompletion scored;
  scored.sample.id = {7, 1, index};
  scored.sample.token_ids = {5, 6, index};
  scored.sample.logprobs = {-1, -2, -3};
  scored.sample.segments = std::move(segments);
  scored.sample.finish_reason = FinishReason::kStop;
  scored.verdict = std::move(verdict);
  return scored;
}

TEST(HeldGroupsTest, ACompleteGroupHasItsCompletionsByIndexWithVersionsAndVerdicts) {
  HeldGroups groups("w", 1);
  WorkerLease work;
  work.lease.ref = {7, 1};
  work.lease.prompt_id = "p";
  work.lease.source = "s";
  work.lease.prompt_token_ids = {1, 2};
  work.lease.completions = 3;
  work.lease.sampling.seed = 9;
  ASSERT_TRUE(groups.Add(work));
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 3);
  Verdict sum = Correct("42", "42");
  sum.parts = {{"math", 1, Outcome::kCorrect, 1, "", 0},
               {"length", 0.5, Outcome::kWrong, -1, "", 0}};
  Verdict failed = Unscorable("timeout");
  failed.parts = {{"s", 1, Outcome::kUnscorable, 0, "timeout", 0}};
  groups.AddScored(Scored(2, {{0, kNew}}, sum));
  groups.AddScored(Scored(0, {{0, kOld}}, failed));
  groups.AddScored(Scored(1, {{0, kOld}, {2, kNew}}, sum));
  const auto complete = groups.WaitForComplete(std::chrono::milliseconds(0));
  ASSERT_TRUE(complete.has_value());
  const Result<v1::Group> group = DecodeGroup(complete->group.bytes);
  ASSERT_TRUE(group.ok()) << group.status().message();
  const v1::GroupHead& head = group->head();
  EXPECT_EQ(head.group_id(), 7);
  EXPECT_EQ(group->sampling().seed(), 9);
  EXPECT_THAT(head.outcomes(), ElementsAre(3, 1, 1));
  EXPECT_THAT(head.rewards(), ElementsAre(0, 0.5, 0.5));
  EXPECT_THAT(head.component_names(), ElementsAre("math", "length"));
  EXPECT_THAT(head.components(), ElementsAre(0, 0, 1, -1, 1, -1));
  EXPECT_THAT(head.trained_lengths(), ElementsAre(0, 3, 3));
  EXPECT_THAT(group->unscorable_reasons(), ElementsAre("timeout", "", ""));
  EXPECT_THAT(group->extracted_answers(), ElementsAre("", "42", "42"));
  EXPECT_EQ(group->second_outcomes_size(), 0);
  ASSERT_EQ(head.versions_size(), 2);
  EXPECT_EQ(head.versions(0).digest(), kOld.digest);
  EXPECT_EQ(VersionSpansOf(*group, 0)[0].version, 0);
  EXPECT_EQ(VersionSpansOf(*group, 1)[1].tokens, (TokenSpan{2, 3}));
  EXPECT_EQ(VersionSpansOf(*group, 2)[0].version, 1);
  EXPECT_THAT(TokensOf(*group, 2), ElementsAre(5, 6, 2));
}

// A sample that fails and is sampled again, and a new lease of the group, change nothing of that.
TEST(HeldGroupsTest, AGroupIsScoredAtOnceWhereTheScoringWantsGroups) {
  HeldGroups groups("w", 1);
  WorkerLease work;
  work.lease.ref = {7, 1};
  work.lease.completions = 3;
  const auto sampled = [&](std::uint64_t epoch, std::int32_t index, bool whole) {
    EngineResult result;
    result.id = {7, epoch, index};
    std::vector<std::int32_t> scored;
    const auto request = groups.AddSampled(std::move(result), FakeScoring(whole));
    for (const EngineResult& sample : request ? request->samples : std::vector<EngineResult>())
      scored.push_back(sample.id.index);
    return scored;
  };
  ASSERT_TRUE(groups.Add(work));
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 3);
  EXPECT_THAT(sampled(1, 2, /*whole=*/true), ElementsAre());
  ASSERT_TRUE(groups.Retry({7, 1, 0}).has_value());
  EXPECT_THAT(sampled(1, 1, true), ElementsAre());
  groups.Revoke({7, 1});
  work.lease.ref = {7, 2};
  ASSERT_TRUE(groups.Add(work));
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 3);
  EXPECT_THAT(sampled(2, 1, true), ElementsAre());
  EXPECT_THAT(sampled(1, 0, true), ElementsAre()) << "of the lease that has ended";
  EXPECT_THAT(sampled(2, 2, true), ElementsAre());
  EXPECT_THAT(sampled(2, 0, true), ElementsAre(0, 1, 2));
  groups.Revoke({7, 2});
  work.lease.ref = {7, 3};
  ASSERT_TRUE(groups.Add(work));
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 3);
  EXPECT_THAT(sampled(3, 1, /*whole=*/false), ElementsAre(1));
}

TEST(HeldGroupsTest, TokensOfAnEpisodeAreThoseThatThePolicySampled) {
  HeldGroups groups("w", 1);
  Lease lease;
  lease.ref = {7, 1};
  lease.prompt_id = "p";
  lease.source = "s";
  lease.answer = "42";
  lease.extra_json = R"({"prompt":"?"})";
  lease.prompt_token_ids = {1};
  lease.completions = 2;
  ASSERT_TRUE(groups.Add(*PrepareLease(lease, {}, ByteTokenizer())));
  const std::vector<SampleRequest> requests = groups.StartRunnable(kOld);
  ASSERT_EQ(requests.size(), 2);
  ASSERT_NE(requests[1].task, nullptr);
  EXPECT_EQ(requests[1].task->row_json, lease.extra_json);
  EXPECT_EQ(requests[1].task->answer, "42");
  Episode episode;
  episode.branches.resize(1);
  episode.branches[0].token_ids = {1, 2, 3, 4, 5, 6};
  episode.branches[0].turns.resize(2);
  episode.branches[0].turns[0].begin = 1;
  episode.branches[0].turns[0].end = 3;
  episode.branches[0].turns[1].begin = 5;
  episode.branches[0].turns[1].end = 6;
  EngineResult result;
  result.id = {7, 1, 0};
  result.episode = std::make_shared<Episode>(episode);
  ASSERT_TRUE(groups.AddSampled(std::move(result), FakeScoring()).has_value());
  groups.Revoke({7, 1});
  EXPECT_EQ(groups.token_counts().cut, 3);
}

bool AddGroup(HeldGroups& groups, std::uint64_t id, std::int32_t completions) {
  WorkerLease work;
  work.lease.ref = {id, 1};
  work.lease.completions = completions;
  return groups.Add(work);
}

void Score(HeldGroups& groups, std::uint64_t id, std::int32_t index) {
  ScoredCompletion scored = Scored(index, {{0, kOld}}, Correct("1", "1"));
  scored.sample.id = {id, 1, index};
  groups.AddScored(std::move(scored));
}

TEST(HeldGroupsTest, TheEndOfACompletionMakesRoomForOneOfAnotherGroup) {
  HeldGroups groups("w", 2);
  const auto add = [&](std::uint64_t id) { return AddGroup(groups, id, 4); };
  const auto score = [&](std::uint64_t id, std::int32_t index) { Score(groups, id, index); };
  ASSERT_TRUE(add(1) && add(2));
  EXPECT_EQ(groups.room(), 0);
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 8);
  for (const std::int32_t index : {0, 1, 2}) score(1, index);
  EXPECT_EQ(groups.room(), 0) << "five are unscored";
  score(2, 0);
  EXPECT_EQ(groups.room(), 1);
  EXPECT_TRUE(add(3));
  EXPECT_EQ(groups.room(), 0);
  // Complete groups that are not sent hold up the worker.
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 4);
  score(1, 3);
  for (const std::int32_t index : {0, 1, 2, 3}) score(3, index);
  EXPECT_EQ(groups.room(), 0) << "two are complete and three completions unscored";
  const auto complete = groups.WaitForComplete(std::chrono::milliseconds(0));
  ASSERT_TRUE(complete.has_value());
  groups.Finish(*complete, true);
  EXPECT_EQ(groups.room(), 1);
}

TEST(HeldGroupsTest, LeasesThatWereAskedForFitWhateverEndsMeanwhile) {
  HeldGroups groups("w", 2);
  const auto add = [&](std::uint64_t id) { return AddGroup(groups, id, 1); };
  const auto score = [&](std::uint64_t id) { Score(groups, id, 0); };
  ASSERT_TRUE(add(1) && add(2));
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 2);
  score(1);
  ASSERT_EQ(groups.room(), 1);
  score(2);
  ASSERT_EQ(groups.room(), 0);
  EXPECT_TRUE(add(3)) << "the answer to what was asked when there was room for one";
  for (std::uint64_t id = 4; id <= 6; ++id) EXPECT_TRUE(add(id));
  EXPECT_FALSE(add(7)) << "twice the bound";
}

// An engine of 32 rows, and groups of which one completion in eight is 16 times as long as the
// others. If leases came by whole groups, a group of rows would wait for its longest: 18 % busy.
TEST(HeldGroupsTest, LongCompletionsKeepNoRowFromOthers) {
  constexpr std::int64_t kRows = 32, kGroup = 8, kShort = 4, kLong = 64, kSteps = 1000;
  RunConfig config;
  config.run.sampling.group_size = kGroup;
  config.local.worker.max_running = kRows;
  HeldGroups groups("w", WorkerOptions::From(config, "w").capacity_groups);
  std::uint64_t next_group = 1;
  std::size_t offered = 0;  // in an Exchange, which takes a step
  std::deque<SampleRequest> waiting;
  std::vector<std::pair<SampleId, std::int64_t>> running;  // with the tokens that are left
  std::int64_t busy = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    for (; offered > 0; --offered) ASSERT_TRUE(AddGroup(groups, next_group++, kGroup));
    offered = groups.room();
    for (SampleRequest& request : groups.StartRunnable(kOld)) waiting.push_back(std::move(request));
    for (; std::ssize(running) < kRows && !waiting.empty(); waiting.pop_front()) {
      const SampleId id = waiting.front().id;
      const bool is_long = id.index == static_cast<std::int32_t>(id.group_id % kGroup);
      running.emplace_back(id, is_long ? kLong : kShort);
    }
    busy += std::ssize(running);
    for (auto& [id, left] : running) {
      if (--left == 0) Score(groups, id.group_id, id.index);
    }
    std::erase_if(running, [](const auto& row) { return row.second == 0; });
    while (const auto complete = groups.WaitForComplete(std::chrono::milliseconds(0)))
      groups.Finish(*complete, true);
  }
  EXPECT_GT(static_cast<double>(busy), 0.98 * kRows * kSteps);
}

TEST(HeldGroupsTest, GroupsAreHeldBackUntilAllAreSampledAndReleased) {
  HeldGroups groups("w", 4, /*mask_old=*/false, /*hold_back=*/true);
  const auto complete = [&] {
    return groups.WaitForComplete(std::chrono::milliseconds(0)).has_value();
  };
  ASSERT_TRUE(AddGroup(groups, 1, 1) && AddGroup(groups, 2, 1));
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 2);
  Score(groups, 1, 0);
  groups.Release();
  EXPECT_FALSE(complete()) << "one is not sampled";
  Score(groups, 2, 0);
  EXPECT_FALSE(complete()) << "they are not released";
  groups.Release();
  EXPECT_TRUE(complete());
  ASSERT_TRUE(AddGroup(groups, 3, 1));
  EXPECT_FALSE(complete()) << "one is not sampled again";
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 1);
  Score(groups, 3, 0);
  groups.Release();
  EXPECT_TRUE(complete() && complete());
}

EngineResult Sampled(const SampleId& id, std::int32_t tokens, FinishReason reason) {
  EngineResult result;
  result.id = id;
  result.finish_reason = reason;
  for (std::int32_t t = 0; t < tokens; ++t) {
    result.token_ids.push_back(t);
    result.logprobs.push_back(-1);
  }
  result.segments = {{0, kOld}};
  return result;
}

// First index and number of the tokens that are reported, by completion.
std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>> Reported(
    HeldGroups& groups, const std::vector<EngineResult>& unfinished, bool answered = true) {
  v1::ExchangeRequest request;
  EXPECT_TRUE(groups.ReportPartials(unfinished, request));
  std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>> parts;
  for (const v1::PartialCompletion& part : request.partials())
    parts[part.completion()] = {part.first_token(), part.token_ids_size()};
  if (answered) groups.MarkReported(request);
  return parts;
}

TEST(HeldGroupsTest, EachTokenIsReportedUntilItIsAnswered) {
  HeldGroups groups("w", 1);
  WorkerLease work;
  work.lease.ref = {7, 1};
  work.lease.completions = 2;
  work.lease.sampling.max_tokens = 100;
  ASSERT_TRUE(groups.Add(work));
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 2);
  const SampleId a = {7, 1, 0}, b = {7, 1, 1};
  using Parts = std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>>;
  const auto open = FinishReason::kUnspecified;
  EXPECT_EQ(Reported(groups, {Sampled(a, 3, open)}, /*answered=*/false), (Parts{{0, {0, 3}}}));
  EXPECT_EQ(Reported(groups, {Sampled(a, 4, open)}), (Parts{{0, {0, 4}}}));
  ASSERT_TRUE(groups.AddSampled(Sampled(b, 6, FinishReason::kStop), FakeScoring()).has_value());
  EXPECT_EQ(Reported(groups, {}, /*answered=*/false), (Parts{{1, {0, 6}}})) << "while it is scored";
  groups.AddScored({Sampled(b, 6, FinishReason::kStop), Correct("1", "1"), Outcome::kUnspecified});
  EXPECT_EQ(Reported(groups, {Sampled(a, 9, open)}), (Parts{{0, {4, 5}}, {1, {0, 6}}}));
  EXPECT_EQ(Reported(groups, {Sampled(a, 9, open)}), Parts{});
  // A failed sample begins again, and so does the report.
  ASSERT_TRUE(groups.Retry(a).has_value());
  EXPECT_EQ(Reported(groups, {Sampled(a, 2, open)}), (Parts{{0, {0, 2}}}));
  groups.ForgetPartials();
  EXPECT_EQ(Reported(groups, {Sampled(a, 2, open)}), (Parts{{0, {0, 2}}, {1, {0, 6}}}));
  // The coordinator has what is returned: it counts where it ends.
  EXPECT_EQ(groups.Return({7, 1}, ReturnReason::kDraining).size(), 1);
  EXPECT_EQ(groups.token_counts().handed_on, 6);
  groups.CountHandedOn(a, true);
  EXPECT_EQ(groups.token_counts().handed_on, 8);
}

// Completion 0 came begun to the engine, which has more of it, and 1 waits in it.
TEST(HeldGroupsTest, ARestartedCoordinatorIsToldWhatTheLeaseBrought) {
  HeldGroups groups("w", 1);
  WorkerLease work;
  work.lease.ref = {7, 1};
  work.lease.completions = 2;
  work.lease.sampling.max_tokens = 100;
  for (const std::int32_t i : {0, 1}) {
    const EngineResult begun = Sampled({7, 1, i}, 3, FinishReason::kUnspecified);
    work.begun[i] = PartFrom(i, 0, begun.token_ids, begun.logprobs, begun.segments);
  }
  ASSERT_TRUE(groups.Add(work));
  using Parts = std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>>;
  groups.ForgetPartials();
  EXPECT_EQ(Reported(groups, {}), (Parts{{0, {0, 3}}, {1, {0, 3}}})) << "while it waits";
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 2);
  const std::vector<EngineResult> longer = {Sampled({7, 1, 0}, 5, FinishReason::kUnspecified)};
  EXPECT_EQ(Reported(groups, longer), (Parts{{0, {3, 2}}}));
  groups.ForgetPartials();
  EXPECT_EQ(Reported(groups, longer), (Parts{{0, {0, 5}}, {1, {0, 3}}}));
}

TEST(HeldGroupsTest, AReportHasAtMostOneMiB) {
  HeldGroups groups("w", 1);
  WorkerLease work;
  work.lease.ref = {7, 1};
  work.lease.completions = 2;
  ASSERT_TRUE(groups.Add(work));
  groups.StartRunnable(kOld);
  const std::vector<EngineResult> unfinished = {
      Sampled({7, 1, 0}, 100000, FinishReason::kUnspecified),
      Sampled({7, 1, 1}, 100000, FinishReason::kUnspecified)};
  v1::ExchangeRequest request;
  EXPECT_FALSE(groups.ReportPartials(unfinished, request));
  EXPECT_LE(request.ByteSizeLong(), std::size_t{1} << 20);
  groups.MarkReported(request);
  v1::ExchangeRequest rest;
  EXPECT_TRUE(groups.ReportPartials(unfinished, rest));
  ASSERT_EQ(rest.partials_size(), 1);
  EXPECT_EQ(rest.partials(0).first_token() + rest.partials(0).token_ids_size(), 100000);
}

TEST(HeldGroupsTest, ALeaseContinuesWhatWasBegunAndMasksWhatIsTooOld) {
  HeldGroups groups("w", 1, /*mask_old=*/true);
  Lease lease;
  lease.ref = {7, 2};
  lease.prompt_id = "p";
  lease.source = "s";
  lease.prompt_token_ids = {1, 2};
  lease.completions = 3;
  lease.min_version = kNew;
  lease.sampling.max_tokens = 4;
  lease.sampling.stop_token_ids = {9};
  const std::vector<float> logprobs = {-1, -1};
  const std::vector<Segment> old = {{0, kOld}};
  const std::vector<std::int32_t> open = {5, 6}, stopped = {5, 9}, foreign = {5, 4000};
  const ByteTokenizer tokenizer;
  const auto work =
      PrepareLease(lease,
                   {PartFrom(0, 0, open, logprobs, old), PartFrom(1, 0, stopped, logprobs, old),
                    PartFrom(2, 0, foreign, logprobs, old), PartFrom(3, 0, open, logprobs, old)},
                   tokenizer);
  ASSERT_TRUE(work.ok()) << work.status().ToString();
  ASSERT_TRUE(groups.Add(*work));
  EXPECT_TRUE(groups.StartRunnable(kOld).empty());
  const std::vector<SampleRequest> requests = groups.StartRunnable(kNew);
  ASSERT_EQ(requests.size(), 3);
  EXPECT_EQ(requests[0].begun.token_ids, open);
  EXPECT_FALSE(requests[0].begun.ended());
  EXPECT_THAT(requests[1].begun.token_ids, ElementsAre(5)) << "the stop token is sampled again";
  EXPECT_FALSE(requests[1].begun.ended());
  EXPECT_TRUE(requests[2].begun.token_ids.empty()) << "not of this vocabulary";

  for (std::int32_t i = 0; i < 3; ++i) {
    EngineResult sample = Sampled({7, 2, i}, 4, FinishReason::kLength);
    sample.segments =
        i == 0 ? std::vector<Segment>{{0, kOld}, {2, kNew}} : std::vector<Segment>{{0, kNew}};
    groups.AddScored({std::move(sample), Correct("1", "1"), Outcome::kUnspecified});
  }
  const auto complete = groups.WaitForComplete(std::chrono::milliseconds(0));
  ASSERT_TRUE(complete.has_value());
  const Result<v1::Group> group = DecodeGroup(complete->group.bytes);
  ASSERT_TRUE(group.ok()) << group.status().message();
  EXPECT_THAT(group->head().trained_lengths(), ElementsAre(2, 4, 4));
  EXPECT_THAT(TrainedSpansOf(*group, 0), ElementsAre(TokenSpan{2, 4}));
  EXPECT_TRUE(CheckGroup(*group).ok()) << CheckGroup(*group).ToString();
}

}  // namespace
}  // namespace buttress
