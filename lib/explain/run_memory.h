// What a run has shown up to a step: histories of prompts, rates of sources, recent lengths and
// likeness. Bounded: kMaxPrompts prompts, the last kRecent completions. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/explain/cause.h"
#include "lib/explain/facts.h"

namespace buttress {

// Of one prompt over its visits.
struct SeenPrompt {
  std::string source;
  std::int64_t groups = 0;
  std::int64_t collapsed = 0;
  PromptHistory history;    // all earlier visits
  double past_correct = 0;  // each visit counts half of the next
  double past_scored = 0;
  std::int64_t last_step = 0;
  bool last_collapsed = false;
  std::vector<std::uint32_t> last_texts;  // digests, shortened
};

class RunMemory {
 public:
  static constexpr std::size_t kMaxPrompts = 200'000;
  static constexpr std::size_t kRecent = 8192;
  static constexpr std::size_t kRecentGroups = 512;
  static constexpr std::size_t kLastTexts = 16;

  explicit RunMemory(const CauseRules& rules) : rules_(rules) {}

  // The context of every group of a step, from earlier steps and from this one. Then Remember the
  // same groups.
  std::vector<GroupContext> Contexts(std::span<const GroupFacts> groups);

  // The prompt's history before this step: the trainer's own record where there is one.
  PromptHistory HistoryOf(const GroupFacts& group) const;

  // `causes` has one element a group, none for one with a signal. What a fault of sampler, verifier
  // or limit did to a group says nothing about its prompt and source, so it stays out of their
  // records.
  void Remember(std::span<const GroupFacts> groups, std::span<const std::optional<Cause>> causes);

  // Whether `raw_reward` counts as a success: by outcome, else from the middle of the run's rewards
  // on.
  bool IsSuccess(const CompletionFacts& completion) const;

  const std::unordered_map<std::string, SeenPrompt>& prompts() const { return prompts_; }

  bool prompts_left_out() const { return prompts_left_out_; }

  std::optional<double> similarity() const;

 private:
  struct Source {
    std::int64_t groups = 0;
    std::int64_t all_high = 0;  // constant at the best reward of the run
    std::int64_t all_low = 0;
    std::int64_t completions = 0;
    double low = 0, high = 0;
  };

  // The groups of one source at one step.
  struct StepOfSource {
    std::int64_t groups = 0;
    bool constant = true;  // all of them at `value`
    double value = 0;
    double chance = 1;
  };

  struct Recent {
    std::int32_t length = 0;
    std::int32_t tokens = 0;
    bool ends_midway = false;
    bool has_text = false;
  };

  bool IsBest(double value) const;
  bool IsWorst(double value) const;
  void RememberRewards(const GroupFacts& group, SeenPrompt* prompt);
  void Look(std::span<const GroupFacts> groups);
  std::map<std::string, StepOfSource> StepBySource(std::span<const GroupFacts> groups) const;
  void SetLengths(GroupContext& context) const;
  void SetRepeats(const GroupFacts& group, GroupContext& context) const;

  const CauseRules rules_;
  bool seen_reward_ = false;
  double lowest_ = 0, highest_ = 0;
  std::unordered_map<std::string, SeenPrompt> prompts_;
  bool prompts_left_out_ = false;
  std::map<std::string, Source> sources_;
  std::deque<Recent> recent_;
  std::deque<double> similarities_;  // of groups whose texts have room
  std::int64_t truth_known_ = 0, truth_agrees_ = 0;
};

}  // namespace buttress
