// The facts about a group, from a ledger or from another trainer's dump. A fact that the source
// does not hold is nullopt, empty or unspecified.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/text/minhash.h"
#include "lib/experience/collapse.h"
#include "lib/experience/types.h"

namespace buttress {

// Facts about a text, or about token ids in place of words; all 0 if neither is known.
struct TextFacts {
  std::uint64_t digest = 0;  // equal for equal texts; 0 if nothing is known
  std::int32_t words = 0;    // words, numbers and other characters of a text, or tokens
  std::int32_t length = 0;   // bytes of a text, or tokens
  bool ends_midway = false;  // the last character of the text does not end an answer
  MinHash sketch{};          // of its words or tokens

  bool known() const { return digest != 0; }
};

// Computes the facts of a text in linear time. Pure.
TextFacts FactsOfText(std::string_view text);

// Of an episode of run.env, over all its branches.
struct EpisodeFacts {
  std::int32_t turns = 0;
  std::int32_t branches = 1;
  // 0 where an earlier version did not count.
  std::int32_t calls = 0, failed_calls = 0;
  std::int32_t repeated_answers = 0;  // that equal an earlier one of their branch
  bool rewarded_early = false;        // a turn before the last has a reward of its own
  std::int32_t rewarded_branches = 0;
};

struct CompletionFacts {
  double deciding_reward = 0;               // decides collapse; NaN if unscorable
  double raw_reward = 0;                    // before shaping: the weighted sum of its components
  double shaped_reward = 0;                 // as the estimators normalise it
  Outcome outcome = Outcome::kUnspecified;  // unspecified: the deciding reward decides
  bool judged = true;                       // false: nothing says whether the completion is right
  std::optional<bool> truncated;            // at the token limit
  std::string limit;                        // setting at which its episode ended; empty: none
  std::optional<std::int32_t> tokens;
  std::optional<double> logprob;     // nats of the whole completion under the sampler
  std::optional<bool> states_truth;  // whether a second verifier finds the ground truth in it
  TextFacts text;
  std::optional<EpisodeFacts> episode;

  // Returns whether the completion has a reward that counts.
  bool scorable() const {
    return std::isfinite(deciding_reward) && outcome != Outcome::kUnscorable;
  }

  // Returns whether it has a reward that counts and says whether the completion is right.
  bool has_verdict() const { return judged && scorable(); }

  void SetRewards(double reward) { deciding_reward = raw_reward = shaped_reward = reward; }
};

// Makes a completion unscorable whose reward or raw reward is beyond kMaxReward. Returns whether it
// did.
bool MaskHugeReward(CompletionFacts& completion);

struct GroupFacts {
  std::int64_t step = 0;
  std::string prompt_id;
  std::string source;
  std::string sampler;                       // worker id; "" if unknown
  std::string where;                         // for example "12.jsonl:33" or "group 512"
  std::optional<std::int64_t> version_step;  // step of the oldest weights that sampled the group
  std::optional<PromptHistory> history;      // as the trainer recorded it before the group
  std::vector<CompletionFacts> completions;
  // Failed tool calls by tool, as far as they are known; "": calls that cannot be read.
  std::map<std::string, std::int64_t> failed_by_tool;
  bool turn_credit = false;  // run.env.credit: turn

  std::vector<double> deciding_rewards() const;
  std::vector<Outcome> outcomes() const;  // empty if one of them is unknown

  // Returns whether every completion is judged. If not, equal rewards are kOtherConstant.
  bool judged() const;
  CollapseClass collapse() const;
};

// The copies and near copies within a group.
struct GroupCopies {
  std::int64_t known = 0;     // completions whose text is known
  std::int64_t distinct = 0;  // distinct texts
  std::int64_t most = 0;      // completions with the most frequent text
  std::int64_t copied = 0;    // completions that equal another completion
  std::int32_t words = 0;     // words of the longest copied text, or of the longest text
  double similarity = 0;      // mean over pairs of completions; 1 for equal texts
  // Probability that independent samples give as many copies, under the sampler's log-probs;
  // nullopt without copies or without log-probs.
  std::optional<double> chance;
};

// Pure.
GroupCopies FindCopies(const GroupFacts& group);

}  // namespace buttress
