// The history of a run up to a step: histories of prompts, rates of sources, recent lengths and
// similarities. Memory is bounded by kMaxPrompts prompts and the last kRecent completions. Not
// thread-safe.
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
#include "lib/explain/group_size.h"
#include "lib/explain/source_record.h"

namespace buttress {

// One visit of a prompt that says something about it.
struct PromptVisit {
  std::int64_t step = 0;
  std::int32_t correct = 0, scored = 0;
};

// The visits of one prompt.
struct SeenPrompt {
  std::string source;
  std::vector<PromptVisit> visits;  // the last kVisits
  std::int64_t groups = 0;
  std::int64_t collapsed = 0;
  PromptHistory history;  // its recent part with kVisitDecay
  std::int64_t last_step = 0;
  bool last_collapsed = false;
  std::vector<std::uint32_t> last_texts;  // shortened digests
};

// Verdicts in mixed groups that a second verifier gave too: it finds the ground truth in a
// completion ("states") or does not.
struct TruthCounts {
  std::int64_t right = 0, right_unstated = 0;
  std::int64_t wrong = 0, wrong_stated = 0;

  std::int64_t known() const { return right + wrong; }

  std::int64_t agree() const { return known() - right_unstated - wrong_stated; }
};

class RunHistory {
 public:
  static constexpr std::size_t kMaxPrompts = 200'000;
  static constexpr std::size_t kRecent = 8192;
  static constexpr std::size_t kRecentGroups = 512;
  static constexpr std::size_t kLastTexts = 16;
  static constexpr std::size_t kDrawn = 1024;
  static constexpr std::size_t kVisits = 8;
  static constexpr double kVisitDecay = 0.5;  // weight of a prompt's older visits at each visit

  explicit RunHistory(const CauseRules& rules) : rules_(rules) {}

  // Returns the context of every group of a step, from earlier steps and from this one. Call
  // Record with the same groups afterwards.
  std::vector<GroupContext> Contexts(std::span<const GroupFacts> groups);

  // Returns the prompt's whole history before this step; the trainer's own record takes precedence.
  PromptHistory HistoryOf(const GroupFacts& group) const;

  // Returns what the prompt gave at its visits of the last CauseRules::history_steps steps, kVisits
  // at most. The trainer's own record, which has no steps, counts for a prompt that was not seen.
  PromptHistory RecentOf(const GroupFacts& group) const;

  // The same with equal weights; none if the newest of these visits was all wrong.
  Trials VisitsOf(const GroupFacts& group) const;

  // Records the groups of a step. `causes` has one element per group, nullopt for a group with a
  // signal. A fault of the sampler, the verifier or the token limit says nothing about a prompt and
  // its source, so such groups do not enter their records.
  void Record(std::span<const GroupFacts> groups, std::span<const std::optional<Cause>> causes);

  // Returns whether a completion is a success: by its outcome, or by a deciding reward in the upper
  // half of the run's range. REQUIRES: it has a verdict.
  bool IsSuccess(const CompletionFacts& completion) const;

  const std::unordered_map<std::string, SeenPrompt>& prompts() const { return prompts_; }

  // The difficulty of a source before this step; uniform before its first groups.
  const Difficulty& DifficultyOf(const std::string& source) const;

  // The difficulty of every source with judged groups. Its share is that of the last kDrawn groups.
  std::map<std::string, SourceDifficulty> Difficulties() const;

  // Sources of which no completion was ever right, with their completions.
  std::map<std::string, std::int64_t> NeverRight() const;

  const TruthCounts& truth() const { return truth_; }

  bool prompts_left_out() const { return prompts_left_out_; }

  std::optional<double> similarity() const;

 private:
  struct Source {
    std::int64_t groups = 0;
    SourceRecord record;
    std::int64_t completions = 0;
    std::int64_t all_groups = 0;         // faults or not
    std::int64_t judged = 0, right = 0;  // completions of all groups
    double low = 0, high = 0;
    RecentDifficulty recent;
    Difficulty difficulty;  // fitted to `recent`, but for the last `since_fit` groups
    std::int64_t since_fit = 0;
    std::int64_t fitted = 0;  // groups of the fit
  };

  struct Recent {
    std::int32_t length = 0;
    std::int32_t tokens = 0;
    bool ends_midway = false;
    bool has_text = false;
  };

  bool IsBest(double value) const;
  bool IsWorst(double value) const;
  void RecordRewards(const GroupFacts& group, SeenPrompt* prompt);
  void FitDifficulty();
  void Observe(std::span<const GroupFacts> groups);
  ConstantAt Place(double value) const;
  void AddToStep(const GroupFacts& group, SourceStep& step) const;
  void SetConfirmed(std::span<const GroupFacts> groups);
  void SetSteps(std::span<const GroupFacts> groups);
  void SetLengths(GroupContext& context) const;
  void SetRepeats(const GroupFacts& group, GroupContext& context) const;

  const CauseRules rules_;
  bool seen_reward_ = false;
  double lowest_ = 0, highest_ = 0;
  std::unordered_map<std::string, SeenPrompt> prompts_;
  bool prompts_left_out_ = false;
  std::map<std::string, Source> sources_;
  std::map<std::string, SourceStep> steps_;  // of the newest Contexts, by source
  std::uint64_t recorded_ = 0;               // groups
  std::deque<std::string> drawn_;            // sources of the last kDrawn groups
  std::deque<Recent> recent_;
  std::deque<double> similarities_;  // of groups with texts of room_words or more
  TruthCounts truth_;
};

}  // namespace buttress
