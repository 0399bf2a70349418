// Injects every cause at its origin and checks its name as reported from a dump of verl.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli/explain/step_source.h"
#include "lib/explain/post_mortem.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/cli/explain/synthetic_dump.h"

namespace buttress {
namespace {

using Confusion = std::map<Cause, std::map<Cause, int>>;  // injected -> reported -> groups

// Counts injected against reported causes over the groups without a signal.
Confusion Explain(const SyntheticDump& dump, const StepSourceOptions& options = {}) {
  TempDir folder;
  std::ofstream(folder.path() + "/1.jsonl") << dump.text();
  const Result<std::unique_ptr<StepSource>> source = OpenSteps(folder.path(), options);
  EXPECT_TRUE(source.ok()) << source.status().ToString();
  Confusion confusion;
  PostMortem post_mortem(CauseRules{}, [&](const CollapsedGroup& group) {
    const int prompt = std::stoi(group.prompt_id.substr(group.prompt_id.find("Problem ") + 8));
    const auto injected = dump.truth().find({group.step, prompt});
    // At a first visit only the source speaks.
    const Cause named = group.diagnosis.cause == Cause::kEasySource   ? Cause::kTooEasy
                        : group.diagnosis.cause == Cause::kHardSource ? Cause::kTooHard
                                                                      : group.diagnosis.cause;
    if (injected != dump.truth().end()) ++confusion[injected->second][named];
  });
  while (true) {
    const Result<std::vector<GroupFacts>> groups = (*source)->Next();
    EXPECT_TRUE(groups.ok()) << groups.status().ToString();
    if (!groups.ok() || groups->empty()) return confusion;
    const Status status = post_mortem.Add(*groups);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

std::string Table(const Confusion& confusion) {
  std::string text;
  for (const auto& [injected, named] : confusion) {
    text += std::string(InfoOf(injected).name) + ":";
    for (const auto& [cause, count] : named)
      text += " " + std::to_string(count) + " " + std::string(InfoOf(cause).name);
    text += "\n";
  }
  return text;
}

double NamedRight(const Confusion& confusion, Cause cause) {
  const auto found = confusion.find(cause);
  if (found == confusion.end()) return 0;
  int all = 0;
  for (const auto& [named, count] : found->second) all += count;
  const auto right = found->second.find(cause);
  return right == found->second.end() ? 0.0 : static_cast<double>(right->second) / all;
}

int Injected(const Confusion& confusion, Cause cause) {
  int all = 0;
  if (const auto found = confusion.find(cause); found != confusion.end()) {
    for (const auto& [named, count] : found->second) all += count;
  }
  return all;
}

// A mix of easy, hard and middling prompts, by id.
SyntheticPrompt Healthy(int id) {
  SyntheticPrompt prompt{.id = id, .source = id % 2 == 0 ? "math" : "gsm"};
  const int kind = id % 5;
  prompt.success_rate = kind == 0 ? 0.985 : kind == 1 ? 0.01 : 0.35 + 0.1 * kind;
  prompt.fault = kind == 0 ? Cause::kTooEasy : kind == 1 ? Cause::kTooHard : Cause::kUnknown;
  return prompt;
}

// 100 prompts without faults that return every second step, and new prompts with each fault.
SyntheticDump RunWithFaults(std::uint64_t seed) {
  SyntheticDump dump(seed, 8);
  int next = 1000;
  for (int step = 1; step <= 24; ++step) {
    std::vector<SyntheticPrompt> prompts;
    for (int i = 0; i < 50; ++i) prompts.push_back(Healthy(2 * i + step % 2));
    for (const Cause fault : {Cause::kDuplicateSamples, Cause::kModeCollapsed, Cause::kTruncated,
                              Cause::kFloatNoise, Cause::kUnscorable}) {
      for (int i = 0; i < 4; ++i)
        prompts.push_back({.id = next++,
                           .source = "math",
                           .success_rate = i % 2 == 0 ? 0.03 : 0.6,
                           .fault = fault});
    }
    // The same prompts at all steps.
    for (int i = 0; i < 4; ++i) {
      prompts.push_back({.id = 500 + i,
                         .source = "math",
                         .success_rate = i % 2 == 0 ? 0.002 : 0.999,
                         .fault = Cause::kStaleWeights});
    }
    SyntheticStep faults;
    if (step % 8 >= 6)
      faults = {.constant_source = "gsm", .constant_reward = step > 16 ? 1.0 : 0.0};
    dump.AddStep(step, prompts, faults);
  }
  return dump;
}

TEST(InjectedCausesTest, EveryCauseIsNamedCorrectlyInNineteenOfTwentyGroups) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const Confusion confusion = Explain(RunWithFaults(seed));
    for (const Cause cause :
         {Cause::kTooEasy, Cause::kTooHard, Cause::kTruncated, Cause::kUnscorable,
          Cause::kVerifierConstant, Cause::kDuplicateSamples, Cause::kModeCollapsed,
          Cause::kStaleWeights, Cause::kFloatNoise}) {
      EXPECT_GE(NamedRight(confusion, cause), 0.95)
          << InfoOf(cause).name << ", seed " << seed << "\n"
          << Table(confusion);
      EXPECT_GE(Injected(confusion, cause), 20) << InfoOf(cause).name << ", seed " << seed;
    }
  }
}

TEST(InjectedCausesTest, ChanceCollapseOfMiddlingPromptsIsUnknown) {
  SyntheticDump dump(5, 4);
  for (int step = 1; step <= 30; ++step) {
    std::vector<SyntheticPrompt> prompts;
    for (int i = 0; i < 60; ++i)
      prompts.push_back({.id = i,
                         .source = "math",
                         .success_rate = 0.5,
                         .fault = step > 3 ? Cause::kUnknown : Cause::kTooEasy});
    dump.AddStep(step, prompts);
  }
  const Confusion confusion = Explain(dump);
  EXPECT_GE(NamedRight(confusion, Cause::kUnknown), 0.95) << Table(confusion);
  EXPECT_GE(Injected(confusion, Cause::kUnknown), 100);
}

}  // namespace
}  // namespace buttress
