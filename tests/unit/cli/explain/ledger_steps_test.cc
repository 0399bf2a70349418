// Injects faults into a ledger, as a coordinator writes it; its payloads are deleted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/explain/step_source.h"
#include "lib/base/text/digest.h"
#include "lib/experience/check.h"
#include "lib/explain/post_mortem.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"
#include "lib/measure/steps_file.h"
#include "tests/support/make_head.h"
#include "tests/support/runs/quickstart_run.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_group.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kSize = 8;

// Writes a run group by group.
class LedgerRun {
 public:
  LedgerRun() {
    ledger_ = *Ledger::Open(folder_.path() + "/ledger.db");
    batch_.run.emplace();
    batch_.run->run_name = "run";
    batch_.run->config_sha256 = "aa";
  }

  // Adds a group of `step` with random tokens and equal rewards; `change` injects a fault.
  template <class Change>
  void Add(std::uint64_t step, double reward, Change change) {
    v1::Group group = NewGroup(++last_id_, {1, 2}, {1, step - 1, ""});
    for (int i = 0; i < kSize; ++i) {
      std::vector<std::int32_t> tokens(40);
      for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random_.Below(1000));
      AppendTokens(group, tokens, std::vector<float>(tokens.size(), -2.5F), FinishReason::kStop);
      AppendReward(*group.mutable_head(), reward == 1 ? Outcome::kCorrect : Outcome::kWrong, reward,
                   reward);
    }
    change(group);
    ASSERT_TRUE(CheckGroup(group).ok()) << CheckGroup(group).ToString();
    const AcceptedGroup accepted = MakeAccepted(SummarizeGroup(group));
    GroupRow row;
    row.group_id = group.head().group_id();
    row.prompt = {group.head().prompt_id(), group.head().source(), 0, group.head().group_id(),
                  kSize};
    row.state = GroupState::kTrained;
    row.worker_id = group.head().worker_id();
    row.granted_version = {1, step - 1, ""};
    row.step = step;
    batch_.groups.push_back(row);
    batch_.accepted.push_back(accepted);
  }

  // Gives the newest group its payload.
  void KeepPayload(const v1::Group& group) {
    if (!payloads_) payloads_ = *PayloadStore::Open(folder_.path() + "/payloads", {});
    AcceptedGroup& accepted = batch_.accepted.back();
    const std::string bytes = group.SerializeAsString();
    accepted.content_sha256 = Sha256Of(bytes);
    accepted.payload = *payloads_->Append({last_id_, 1}, bytes, accepted.content_sha256);
    EXPECT_TRUE(payloads_->Sync().ok());
  }

  void Write() {
    batch_.run->next_group_id = last_id_ + 1;
    EXPECT_TRUE(ledger_->Write(batch_).ok());
  }

  // Returns the only reported cause, or fails.
  std::map<Cause, int> Explain() {
    Write();
    std::map<Cause, int> named;
    const Result<std::unique_ptr<StepSource>> source = OpenSteps(folder_.path(), {});
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    PostMortem post_mortem(CauseRules{},
                           [&](const CollapsedGroup& group) { ++named[group.diagnosis.cause]; });
    while (true) {
      const Result<std::vector<GroupFacts>> groups = (*source)->Next();
      EXPECT_TRUE(groups.ok()) << groups.status().ToString();
      if (!groups.ok() || groups->empty()) break;
      EXPECT_TRUE(post_mortem.Add(*groups).ok());
    }
    report = post_mortem.Finish();
    return named;
  }

  const std::string& folder() const { return folder_.path(); }

  Report report;

 private:
  TempDir folder_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<PayloadStore> payloads_;
  LedgerChanges batch_;
  std::uint64_t last_id_ = 0;
  RandomStream random_{{3, 4}};
};

using Named = std::map<Cause, int>;

// Makes each completion an episode of three turns with two calls of a tool, both of which fail.
void MakeEpisodes(v1::Group& group, const char* tool) {
  v1::GroupHead& head = *group.mutable_head();
  for (int i = 0; i < kSize; ++i) {
    for (int t = 0; t < 3; ++t) {
      v1::Turn& turn = *group.add_turns();
      turn.set_completion(i);
      turn.set_begin(t * 10);
      turn.set_end(t * 10 + 10);
      if (t < 2) turn.add_tools(tool);
      turn.set_failed_tools(t < 2 ? 1 : 0);
      head.add_turn_rewards(0);
      v1::TokenSpan& span = *group.add_trained_spans();
      span.set_completion(i);
      span.set_begin(turn.begin());
      span.set_end(turn.end());
    }
    for (int t = 0; t < 10; ++t) group.set_logprobs(i * 40 + 30 + t, 0);
    head.set_trained_lengths(i, 30);
    head.add_turns(3);
    head.add_episode_ends(v1::EPISODE_END_DONE);
    head.add_tool_calls(2);
    head.add_failed_tool_calls(2);
    head.add_repeated_answers(0);
  }
}

TEST(LedgerStepsTest, FailingToolsAreNamedWhereThePayloadIsThere) {
  const auto evidence = [](const char* tool, bool payload) {
    LedgerRun run;
    v1::Group made;
    run.Add(40, 0, [&](v1::Group& g) { MakeEpisodes(g, tool), made = g; });
    if (payload) run.KeepPayload(made);
    EXPECT_EQ(run.Explain().size(), 1);
    const Diagnosis& diagnosis = run.report.examples.at(0).diagnosis;
    return std::string(InfoOf(diagnosis.cause).name) + ": " + diagnosis.evidence;
  };
  EXPECT_EQ(evidence("python", false), "failing tools: 16 of 16 tool calls failed");
  EXPECT_EQ(evidence("python", true),
            "failing tools: 16 of 16 tool calls failed, 16 of them of python");
  EXPECT_EQ(evidence("", true),
            "unreadable calls: 16 of 16 tool calls failed, 16 of them in no form that can be read");
}

TEST(LedgerStepsTest, ARunThatComparesTurnsWithoutRewardsOfTurnsIsToldSo) {
  LedgerRun run;
  for (std::uint64_t step = 1; step <= 13; ++step)
    run.Add(step, 0, [&](v1::Group& g) { MakeEpisodes(g, "python"); });
  run.Explain();
  EXPECT_EQ(run.report.credit.of_turns, 0) << "without a configuration";
  std::ofstream(run.folder() + "/config.yaml")
      << "run: {name: r, data: {prompts: p.jsonl}, model: {path: m}, env: {kind: http, url: "
         "'http://127.0.0.1:1', credit: turn}}\n";
  EXPECT_TRUE((*(*OpenSteps(run.folder(), {}))->Next()).at(0).turn_credit);
}

void RepeatTheFirst(v1::Group& group) {
  auto& tokens = *group.mutable_token_ids();
  for (int t = group.head().lengths(0); t < tokens.size(); ++t)
    tokens[t] = tokens[t % group.head().lengths(0)];
}

TEST(LedgerStepsTest, TheNewestStepSaysWhetherAVerifierFailsOnKnownAnswers) {
  LedgerRun run;
  run.Add(1, 0, [](v1::Group&) {});
  run.Write();
  const auto misjudged = [&] { return (*OpenSteps(run.folder(), {}))->misjudged_sources(); };
  EXPECT_EQ(misjudged(), 0);
  const std::string steps = run.folder() + "/steps.jsonl";
  for (const auto& [step, sources] : {std::pair{1, 0}, {2, 1}, {3, 2}}) {
    StepMeasurements measured;
    measured.step = step;
    measured.misjudged_sources = sources;
    ASSERT_TRUE(AppendStep(steps, measured).ok());
    EXPECT_EQ(misjudged(), sources);
  }
  std::ofstream(steps) << "no JSON\n";
  const auto source = OpenSteps(run.folder(), {});
  EXPECT_EQ((*source)->misjudged_sources(), 0);
  EXPECT_THAT((*source)->remarks(),
              ElementsAre(HasSubstr("its controls of the verifiers are left out")));
}

TEST(LedgerStepsTest, EveryFaultVisibleInALedgerIsNamed) {
  struct Case {
    Cause cause;
    double reward;
    void (*change)(v1::Group& group);
  };

  const Case cases[] = {
      {Cause::kEasySource, 1, [](v1::Group&) {}},
      {Cause::kHardSource, 0, [](v1::Group&) {}},
      {Cause::kTruncated, 0,
       [](v1::Group& g) {
         for (int& reason : *g.mutable_head()->mutable_finish_reasons())
           reason = v1::FINISH_REASON_LENGTH;
       }},
      {Cause::kEpisodeLimit, 0,
       [](v1::Group& g) {
         for (int i = 0; i < kSize; ++i) {
           v1::Turn& turn = *g.add_turns();
           turn.set_completion(i);
           turn.set_end(g.head().lengths(i));
           g.mutable_head()->add_turns(1);
           g.mutable_head()->add_turn_rewards(0);
           g.mutable_head()->add_episode_ends(v1::EPISODE_END_TOOLS);
         }
       }},
      {Cause::kFailingTools, 0, [](v1::Group& g) { MakeEpisodes(g, "python"); }},
      {Cause::kUnscorable, 0,
       [](v1::Group& g) {
         for (int i = 0; i < kSize; ++i) {
           g.mutable_head()->set_outcomes(i, v1::OUTCOME_UNSCORABLE);
           g.mutable_head()->set_trained_lengths(i, 0);
           g.add_unscorable_reasons("no answer in the dataset");
         }
       }},
      {Cause::kDuplicateSamples, 0, [](v1::Group& g) { RepeatTheFirst(g); }},
      {Cause::kModeCollapsed, 0,
       [](v1::Group& g) {
         RepeatTheFirst(g);
         for (float& logprob : *g.mutable_logprobs()) logprob = -0.001F;
       }},
      {Cause::kStaleWeights, 0,
       [](v1::Group& g) { g.mutable_head()->mutable_versions(0)->set_step(10); }},
      {Cause::kFloatNoise, 0,
       [](v1::Group& g) {
         g.mutable_head()->set_raw_rewards(0, 1e-9);
         g.mutable_head()->set_rewards(0, 1e-9);
       }},
  };
  for (const Case& fault : cases) {
    LedgerRun run;
    for (std::uint64_t step = 40; step < 44; ++step) {
      for (int i = 0; i < 8; ++i)
        run.Add(step, i % 2, [&](v1::Group& g) {
          g.mutable_head()->set_raw_rewards(0, 1 - i % 2);
          g.mutable_head()->set_rewards(0, 1 - i % 2);
          g.mutable_head()->set_outcomes(0, i % 2 == 0 ? v1::OUTCOME_CORRECT : v1::OUTCOME_WRONG);
        });
      for (int i = 0; i < 3; ++i) run.Add(step, fault.reward, fault.change);
    }
    EXPECT_EQ(run.Explain(), (Named{{fault.cause, 12}})) << InfoOf(fault.cause).name;
    EXPECT_EQ(run.report.counts.groups, 44);
    EXPECT_EQ(run.report.steps.size(), 4);
    EXPECT_NEAR(run.report.steps[0].surprisal_mean.value_or(0),
                fault.cause == Cause::kModeCollapsed ? 1.82 : 2.5, 0.02);
  }
}

// Runs `buttress explain` in an empty folder and returns its output; `left` receives the files that
// it wrote there.
std::string ExplainIn(const TempDir& here, const std::vector<std::string>& arguments,
                      std::vector<std::string>& left) {
  const TempDir logs;
  std::string command = "cd " + here.path() + " && exec " + SiblingProgram("buttress") + " explain";
  for (const std::string& argument : arguments) command += " " + argument;
  const std::string log = logs.path() + "/log";
  EXPECT_EQ(RunToEnd({"sh", "-c", command}, log, 30000), 0) << TextOf(log);
  left.clear();
  for (const auto& entry : std::filesystem::directory_iterator(here.path()))
    left.push_back(entry.path().filename());
  return TextOf(log);
}

TEST(ExplainPageTest, ARunFolderGetsAPageAndADumpGetsOneOnRequest) {
  LedgerRun run;
  for (int i = 0; i < 4; ++i) run.Add(1, 1, [](v1::Group&) {});
  run.Write();
  const TempDir here;
  std::vector<std::string> left;
  const std::string page = run.folder() + "/explain.html";
  EXPECT_THAT(ExplainIn(here, {run.folder(), "--html", "none"}, left),
              Not(HasSubstr("page with plots")));
  EXPECT_FALSE(std::filesystem::exists(page));
  EXPECT_THAT(ExplainIn(here, {run.folder() + "/ledger.db"}, left),
              HasSubstr("page with plots: " + page));
  EXPECT_TRUE(std::filesystem::exists(page));
  EXPECT_THAT(left, IsEmpty());

  const TempDir dump;
  std::ofstream(dump.path() + "/1.jsonl")
      << "{\"prompt\": \"p\", \"reward\": 1}\n{\"prompt\": \"p\", \"reward\": 1}\n";
  EXPECT_THAT(ExplainIn(here, {dump.path()}, left), Not(HasSubstr("page with plots")));
  EXPECT_THAT(left, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(dump.path() + "/explain.html"));
  EXPECT_THAT(ExplainIn(here, {dump.path(), "--html", "page.html"}, left),
              HasSubstr("page with plots: page.html"));
  EXPECT_THAT(left, ElementsAre("page.html"));
}

}  // namespace
}  // namespace buttress
