#include "lib/experience/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <numeric>
#include <string_view>
#include <tuple>
#include <vector>

#include "lib/base/text/reward_bounds.h"
#include "lib/base/text/unicode.h"
#include "lib/experience/check_episodes.h"
#include "lib/experience/codec.h"
#include "lib/experience/group.h"

namespace buttress {
namespace {

constexpr int kMaxIdBytes = 4096;
constexpr int kVersionDigestBytes = 32;
constexpr double kRelativeRounding = 1e-9;

// proto3 cannot parse a string field that is not UTF-8: such a group could be stored but never read
// again.
Status CheckText(std::string_view field, std::string_view text, bool may_be_empty,
                 std::size_t max_bytes) {
  if (text.empty() && !may_be_empty) return InvalidArgument(fmt::format("{} is empty", field));
  if (text.size() > max_bytes) {
    return InvalidArgument(
        fmt::format("{} has {} bytes; expected at most {}", field, text.size(), max_bytes));
  }
  if (FirstInvalidUtf8(text)) return InvalidArgument(fmt::format("{} is not valid UTF-8", field));
  return OkStatus();
}

// Enums of proto3 are open: a value that only a newer peer knows arrives as its number.
template <class Column, class IsValid>
Status CheckEnums(std::string_view name, const Column& column, const IsValid& is_valid) {
  for (const int value : column) {
    if (is_valid(value)) continue;
    return InvalidArgument(fmt::format("{}: this version does not know {}", name, value));
  }
  return OkStatus();
}

Status CheckLengths(const v1::GroupHead& head, const GroupLimits& limits, std::int64_t& sum) {
  for (int i = 0; i < head.lengths_size(); ++i) {
    sum += head.lengths(i);
    if (head.lengths(i) >= 0 && head.lengths(i) <= limits.max_completion_tokens) continue;
    return InvalidArgument(fmt::format("completion {} has {} tokens; expected 0 to {}", i,
                                       head.lengths(i), limits.max_completion_tokens));
  }
  return OkStatus();
}

// The columns of a head that the worker fills.
Status CheckHeadColumns(const v1::GroupHead& head) {
  const std::int64_t n = Completions(head);
  const std::int64_t terms = head.component_names_size();
  return CheckSizes({{"finish_reasons", head.finish_reasons_size(), n},
                     {"raw_rewards", head.raw_rewards_size(), n},
                     {"rewards", head.rewards_size(), n},
                     {"component_weights", head.component_weights_size(), terms},
                     {"components", head.components_size(), n * terms},
                     {"lengths", head.lengths_size(), n},
                     {"trained_lengths", head.trained_lengths_size(), n}});
}

Status CheckColumns(const v1::Group& group, const GroupLimits& limits) {
  const v1::GroupHead& head = group.head();
  const std::int64_t n = Completions(head);
  const std::int64_t branches =
      head.parents().empty() ? 1 : std::max<std::int64_t>(1, limits.max_branches);
  if (n == 0 || n > limits.max_completions * branches)
    return InvalidArgument(
        fmt::format("{} completions; expected 1 to {}", n, limits.max_completions * branches));
  if (head.component_names_size() > static_cast<int>(kMaxRewardTerms)) {
    return InvalidArgument(fmt::format("{} reward components; expected at most {}",
                                       head.component_names_size(), kMaxRewardTerms));
  }
  std::int64_t tokens = 0;
  BUTTRESS_RETURN_IF_ERROR(CheckLengths(head, limits, tokens));
  BUTTRESS_RETURN_IF_ERROR(CheckHeadColumns(head));
  const auto n_or_0 = [&](int size) { return size == 0 ? 0 : n; };
  BUTTRESS_RETURN_IF_ERROR(CheckEpisodeColumns(head, limits));
  BUTTRESS_RETURN_IF_ERROR(CheckSizes(
      {{"token_ids", group.token_ids_size(), tokens},
       {"logprobs", group.logprobs_size(), tokens},
       {"unscorable_reasons", group.unscorable_reasons_size(),
        n_or_0(group.unscorable_reasons_size())},
       {"extracted_answers", group.extracted_answers_size(),
        n_or_0(group.extracted_answers_size())},
       {"second_outcomes", group.second_outcomes_size(), n_or_0(group.second_outcomes_size())}}));
  BUTTRESS_RETURN_IF_ERROR(CheckEnums("outcomes", head.outcomes(), v1::Outcome_IsValid));
  BUTTRESS_RETURN_IF_ERROR(
      CheckEnums("finish_reasons", head.finish_reasons(), v1::FinishReason_IsValid));
  return CheckEnums("second_outcomes", group.second_outcomes(), v1::Outcome_IsValid);
}

Status CheckTokens(std::string_view field, std::span<const std::int32_t> tokens,
                   std::int32_t vocab_size) {
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    if (tokens[t] >= 0 && tokens[t] < vocab_size) continue;
    return InvalidArgument(
        fmt::format("{}[{}] = {}; expected a token in [0, {})", field, t, tokens[t], vocab_size));
  }
  return OkStatus();
}

Status CheckPrompt(const v1::Group& group, const GroupLimits& limits) {
  const int tokens = group.prompt_token_ids_size();
  if (tokens == 0) return InvalidArgument("prompt_token_ids is empty");
  if (tokens > limits.max_prompt_tokens) {
    return InvalidArgument(fmt::format("prompt_token_ids has {} tokens; expected at most {}",
                                       tokens, limits.max_prompt_tokens));
  }
  if (group.head().prompt_tokens() != tokens) {
    return InvalidArgument(fmt::format("prompt_tokens = {}; expected {}, as prompt_token_ids has",
                                       group.head().prompt_tokens(), tokens));
  }
  return CheckTokens("prompt_token_ids", PromptOf(group), limits.vocab_size);
}

Status CheckTerms(const v1::GroupHead& head) {
  for (int c = 0; c < head.component_names_size(); ++c) {
    BUTTRESS_RETURN_IF_ERROR(
        CheckText("component_names", head.component_names(c), false, kMaxTermBytes));
    if (IsReward(head.component_weights(c))) continue;
    return InvalidArgument(
        fmt::format("component '{}' has weight {}; expected a number in [-{}, {}]",
                    head.component_names(c), head.component_weights(c), kMaxReward, kMaxReward));
  }
  return OkStatus();
}

// The raw reward is one component, that of the first verifier that applies, and the weighted sum of
// all is the reward. Without components both are one.
Status CheckComponents(const v1::GroupHead& head, int i) {
  const int terms = head.component_names_size();
  const double raw_reward = head.raw_rewards(i);
  const double reward = head.rewards(i);
  if (terms == 0) {
    if (reward == raw_reward) return OkStatus();
    return InvalidArgument(
        fmt::format("raw_reward = {}, reward = {}, but no components", raw_reward, reward));
  }
  double sum = 0;
  double rounding = 0;
  bool has_raw_reward = false;
  for (int c = 0; c < terms; ++c) {
    const double value = head.components(i * terms + c);
    const double weighted = head.component_weights(c) * value;
    if (!IsReward(value)) {
      return InvalidArgument(fmt::format("component '{}' = {}; expected a number in [-{}, {}]",
                                         head.component_names(c), value, kMaxReward, kMaxReward));
    }
    sum += weighted;
    rounding += kRelativeRounding * std::abs(weighted);
    has_raw_reward = has_raw_reward || value == raw_reward;
  }
  if (std::abs(reward - sum) <= rounding && has_raw_reward) return OkStatus();
  return InvalidArgument(fmt::format(
      "raw_reward = {}, reward = {}, but the weighted sum of its components is {}{}", raw_reward,
      reward, sum, has_raw_reward ? "" : ", and none of them is the raw reward"));
}

Status CheckUnscorable(const v1::Group& group, int i) {
  const v1::GroupHead& head = group.head();
  if (UnscorableReasonOf(group, i).empty())
    return InvalidArgument("unscorable_reason is empty; expected why the outcome is unscorable");
  bool zero = head.raw_rewards(i) == 0 && head.rewards(i) == 0;
  for (int c = 0; c < head.component_names_size(); ++c)
    zero = zero && head.components(i * head.component_names_size() + c) == 0;
  if (zero) return OkStatus();
  return InvalidArgument(
      fmt::format("unscorable, but raw_reward = {}, reward = {}; expected 0 for both and for its "
                  "components",
                  head.raw_rewards(i), head.rewards(i)));
}

Status CheckVerdict(const v1::Group& group, int i) {
  const v1::GroupHead& head = group.head();
  if (FinishReasonOf(head, i) == FinishReason::kUnspecified)
    return InvalidArgument("finish_reason is not set");
  if (OutcomeOf(head, i) == Outcome::kUnspecified) return InvalidArgument("outcome is not set");
  if (!IsScorable(head, i)) return CheckUnscorable(group, i);
  if (head.lengths(i) == 0)
    return InvalidArgument("no tokens; only an unscorable completion may have none");
  if (!IsReward(head.raw_rewards(i)) || !IsReward(head.rewards(i))) {
    return InvalidArgument(fmt::format(
        "raw_reward = {}, reward = {}; expected numbers in [-{}, {}], or outcome unscorable",
        head.raw_rewards(i), head.rewards(i), kMaxReward, kMaxReward));
  }
  return CheckComponents(head, i);
}

Status CheckLogprobs(std::span<const float> logprobs) {
  for (std::size_t t = 0; t < logprobs.size(); ++t) {
    if (logprobs[t] >= kMinLogprob && logprobs[t] <= kMaxLogprob) continue;
    return InvalidArgument(fmt::format("logprobs[{}] = {:f}; expected a number from {} to 0", t,
                                       logprobs[t], kMinLogprob));
  }
  return OkStatus();
}

Status CheckCompletion(const v1::Group& group, int i, std::int64_t offset,
                       const GroupLimits& limits) {
  const auto length = static_cast<std::size_t>(group.head().lengths(i));
  BUTTRESS_RETURN_IF_ERROR(
      CheckTokens("token_ids", {group.token_ids().data() + offset, length}, limits.vocab_size));
  BUTTRESS_RETURN_IF_ERROR(CheckLogprobs({group.logprobs().data() + offset, length}));
  BUTTRESS_RETURN_IF_ERROR(CheckVerdict(group, i));
  BUTTRESS_RETURN_IF_ERROR(
      CheckText("unscorable_reason", UnscorableReasonOf(group, i), true, kMaxReasonBytes));
  const std::string_view answer = ExtractedAnswerOf(group, i);
  if (answer.size() > kMaxExtractedBytes) {
    return InvalidArgument(fmt::format("extracted_answer has {} bytes; expected at most {}",
                                       answer.size(), kMaxExtractedBytes));
  }
  return OkStatus();
}

Status CheckVersions(const v1::GroupHead& head) {
  for (int v = 0; v < head.versions_size(); ++v) {
    const v1::PolicyVersion& version = head.versions(v);
    const int bytes = static_cast<int>(version.digest().size());
    if (bytes != 0 && bytes != kVersionDigestBytes) {
      return InvalidArgument(fmt::format("versions[{}].digest has {} bytes; expected {} or none", v,
                                         bytes, kVersionDigestBytes));
    }
    if (v == 0) continue;
    const v1::PolicyVersion& before = head.versions(v - 1);
    if (std::tuple(before.learner_epoch(), before.step()) <
        std::tuple(version.learner_epoch(), version.step())) {
      continue;
    }
    return InvalidArgument(fmt::format(
        "versions[{}] = {}:{} follows {}:{}; expected each once, the oldest first", v,
        version.learner_epoch(), version.step(), before.learner_epoch(), before.step()));
  }
  return OkStatus();
}

// A group of one version has no segments; segments of several versions cover all tokens and name
// every version.
Status CheckSegments(const v1::Group& group) {
  const v1::GroupHead& head = group.head();
  const int versions = head.versions_size();
  if ((versions == 0) != (group.token_ids_size() == 0) ||
      (versions < 2) != group.segments().empty()) {
    return InvalidArgument(
        fmt::format("{} versions and {} segments for {} tokens; expected a version for tokens, and "
                    "segments for several versions",
                    versions, group.segments_size(), group.token_ids_size()));
  }
  // Turns may be sampled by servers of which one is behind another.
  const bool episodes = !head.turns().empty();
  std::vector<bool> named(static_cast<std::size_t>(versions));
  std::vector<bool> covered(static_cast<std::size_t>(Completions(head)));
  for (int s = 0; s < group.segments_size(); ++s) {
    const v1::Segment& segment = group.segments(s);
    const int i = segment.completion();
    const v1::Segment* before = s > 0 ? &group.segments(s - 1) : nullptr;
    const bool first = before == nullptr || before->completion() < i;
    const bool fits =
        0 <= i && i < Completions(head) && segment.first_token() < head.lengths(i) &&
        0 <= segment.version() && segment.version() < versions &&
        (first ? segment.first_token() == 0
               : before->completion() == i && before->first_token() < segment.first_token() &&
                     (episodes || before->version() <= segment.version()));
    if (!fits) {
      return InvalidArgument(fmt::format(
          "segments[{}] = completion {} from token {} by version {}; expected segments in the "
          "order "
          "of completions, from token 0 on, inside the tokens, and no older version after a newer",
          s, i, segment.first_token(), segment.version()));
    }
    named[static_cast<std::size_t>(segment.version())] = true;
    covered[static_cast<std::size_t>(i)] = true;
  }
  if (group.segments().empty()) return OkStatus();
  for (int i = 0; i < Completions(head); ++i) {
    if (!covered[static_cast<std::size_t>(i)] && head.lengths(i) > 0)
      return InvalidArgument(fmt::format("completion {} has tokens but no segment", i));
  }
  const auto missing = std::ranges::find(named, false);
  if (missing == named.end()) return OkStatus();
  return InvalidArgument(
      fmt::format("versions[{}] sampled no token", std::distance(named.begin(), missing)));
}

Status CheckTrainedSpans(const v1::Group& group) {
  const v1::GroupHead& head = group.head();
  std::vector<std::int32_t> trained(static_cast<std::size_t>(Completions(head)), -1);
  for (int s = 0; s < group.trained_spans_size(); ++s) {
    const v1::TokenSpan& span = group.trained_spans(s);
    const v1::TokenSpan* before = s > 0 ? &group.trained_spans(s - 1) : nullptr;
    const int i = span.completion();
    const bool in_order = before == nullptr || before->completion() <= i;
    const std::int32_t least = before != nullptr && before->completion() == i ? before->end() : 0;
    const bool fits = in_order && 0 <= i && i < Completions(head) && least <= span.begin() &&
                      span.begin() < span.end() && span.end() <= head.lengths(i);
    if (!fits) {
      return InvalidArgument(fmt::format(
          "trained_spans[{}] = [{}, {}) of completion {}; expected spans in order, disjoint, not "
          "empty, and inside the tokens",
          s, span.begin(), span.end(), i));
    }
    std::int32_t& length = trained[static_cast<std::size_t>(i)];
    length = std::max(length, 0) + span.end() - span.begin();
  }
  for (int i = 0; i < Completions(head); ++i) {
    const std::int32_t spans = trained[static_cast<std::size_t>(i)];
    const std::int32_t scorable = spans < 0 ? head.lengths(i) : spans;
    const std::int32_t expected = IsScorable(head, i) ? scorable : 0;
    if (head.trained_lengths(i) == expected) continue;
    return InvalidArgument(fmt::format("completion {}: trained_length = {}; expected {}", i,
                                       head.trained_lengths(i), expected));
  }
  return OkStatus();
}

Status CheckHistory(const v1::PromptHistory& history) {
  const bool counts = history.correct() <= history.scored() &&
                      history.scored() <= static_cast<std::uint64_t>(INT64_MAX);
  const bool recent = 0 <= history.recent_correct() &&
                      history.recent_correct() <= history.recent_scored() &&
                      history.recent_scored() <= static_cast<double>(history.scored());
  const double drawn = history.has_draw_probability() ? history.draw_probability() : 1;
  if (!(drawn > 0 && drawn <= 1)) {
    return InvalidArgument(
        fmt::format("history: draw probability {}; expected above 0 and at most 1", drawn));
  }
  if (counts && recent) return OkStatus();
  return InvalidArgument(fmt::format(
      "history: {} correct of {}, lately {} of {}; expected 0 <= correct <= scored",
      history.correct(), history.scored(), history.recent_correct(), history.recent_scored()));
}

Status CheckCompletion(const v1::GroupHead& head, int i) {
  const bool known = v1::Outcome_IsValid(head.outcomes(i)) &&
                     head.outcomes(i) != v1::OUTCOME_UNSPECIFIED &&
                     v1::FinishReason_IsValid(head.finish_reasons(i));
  const bool finite = std::isfinite(head.raw_rewards(i)) && std::isfinite(head.rewards(i));
  const std::int32_t sampled = SampledLengthsOf(head)[i];
  const bool lengths = 0 <= head.trained_lengths(i) && head.trained_lengths(i) <= sampled &&
                       sampled <= head.lengths(i);
  if (known && finite && lengths) return OkStatus();
  return InvalidArgument(fmt::format(
      "completion {}: outcome {}, raw reward {}, reward {}, {} trained tokens of {}; expected an "
      "outcome, finite rewards, and no more trained tokens than tokens",
      i, head.outcomes(i), head.raw_rewards(i), head.rewards(i), head.trained_lengths(i),
      head.lengths(i)));
}

// The groups of the plan are among those that the snapshot counts by source.
Status CheckSources(const Plan& plan) {
  CollapseCounts sum;
  const std::vector<SourceCollapse>& sources = plan.collapse.sources;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    sum.Add(sources[s].step);
    if (s == 0 || sources[s - 1].source < sources[s].source) continue;
    return InvalidArgument(
        fmt::format("plan: source '{}' follows '{}'; expected each once, in the order of names",
                    sources[s].source, sources[s - 1].source));
  }
  if (!sources.empty() && sum != plan.collapse.step) {
    return InvalidArgument(
        fmt::format("plan: the sources count {} groups, the step {}; expected the same counts",
                    sum.groups, plan.collapse.step.groups));
  }
  if (sources.empty()) return OkStatus();
  for (const GroupHeadPtr& group : plan.groups) {
    if (std::ranges::binary_search(sources, group->source(), {}, &SourceCollapse::source)) continue;
    return InvalidArgument(
        fmt::format("plan: group {} has source '{}', which the snapshot does not count",
                    group->group_id(), group->source()));
  }
  return OkStatus();
}

Status CheckGroupHead(const v1::GroupHead& head) {
  if (Completions(head) == 0) return InvalidArgument("no completions");
  BUTTRESS_RETURN_IF_ERROR(CheckHeadColumns(head));
  BUTTRESS_RETURN_IF_ERROR(
      CheckSizes({{"logprob_sums", head.logprob_sums_size(), Completions(head)},
                  {"sampled_lengths", head.sampled_lengths_size(), head.turns_size()}}));
  BUTTRESS_RETURN_IF_ERROR(CheckEpisodeColumns(head, {}));
  for (int i = 0; i < head.outcomes_size(); ++i) BUTTRESS_RETURN_IF_ERROR(CheckCompletion(head, i));
  BUTTRESS_RETURN_IF_ERROR(CheckEpisodeVerdicts(head));
  if (!std::ranges::all_of(head.components(), [](double part) { return std::isfinite(part); }))
    return InvalidArgument("a reward component is not finite");
  if (!v1::CollapseClass_IsValid(head.collapse()))
    return InvalidArgument(fmt::format("collapse = {} is unknown", head.collapse()));
  return CheckHistory(head.history());
}

}  // namespace

Status CheckGroup(const v1::Group& group, const GroupLimits& limits) {
  const v1::GroupHead& head = group.head();
  BUTTRESS_RETURN_IF_ERROR(CheckText("prompt_id", head.prompt_id(), false, kMaxIdBytes));
  BUTTRESS_RETURN_IF_ERROR(CheckText("source", head.source(), false, kMaxIdBytes));
  BUTTRESS_RETURN_IF_ERROR(CheckText("worker_id", head.worker_id(), false, kMaxIdBytes));
  BUTTRESS_RETURN_IF_ERROR(CheckColumns(group, limits));
  BUTTRESS_RETURN_IF_ERROR(CheckPrompt(group, limits));
  BUTTRESS_RETURN_IF_ERROR(FromProto(group.sampling()).status());
  BUTTRESS_RETURN_IF_ERROR(CheckTerms(head));
  BUTTRESS_RETURN_IF_ERROR(CheckVersions(head));
  std::int64_t offset = 0;
  for (int i = 0; i < Completions(head); ++i) {
    if (Status status = CheckCompletion(group, i, offset, limits); !status.ok())
      return status.Annotate(fmt::format("completion {}", i));
    offset += head.lengths(i);
  }
  BUTTRESS_RETURN_IF_ERROR(CheckSegments(group));
  BUTTRESS_RETURN_IF_ERROR(CheckTrainedSpans(group));
  BUTTRESS_RETURN_IF_ERROR(CheckEpisodeVerdicts(head));
  return CheckTurns(group);
}

Status CheckPlan(const Plan& plan) {
  for (const GroupHeadPtr& group : plan.groups) {
    if (Status status = CheckGroupHead(*group); !status.ok())
      return status.Annotate(fmt::format("plan: group {}", group->group_id()));
  }
  return CheckSources(plan);
}

}  // namespace buttress
