#include "lib/experience/check.h"

#include <fmt/core.h>
#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/reward_bounds.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxIdBytes = 4096;
constexpr double kRelativeRounding = 1e-9;

bool IsUtf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t codepoint = 0;
    const utf8proc_ssize_t used = utf8proc_iterate(bytes, left, &codepoint);
    if (used <= 0) return false;
    bytes += used;
    left -= used;
  }
  return true;
}

// proto3 cannot parse a string field that is not UTF-8: such a group could be stored but never read
// again.
Status CheckText(std::string_view field, std::string_view text, bool may_be_empty,
                 std::size_t max_bytes) {
  if (text.empty() && !may_be_empty) return InvalidArgument(fmt::format("{} is empty", field));
  if (text.size() > max_bytes) {
    return InvalidArgument(
        fmt::format("{} has {} bytes; expected at most {}", field, text.size(), max_bytes));
  }
  if (!IsUtf8(text)) return InvalidArgument(fmt::format("{} is not valid UTF-8", field));
  return OkStatus();
}

Status CheckTokens(std::string_view field, const std::vector<std::int32_t>& tokens,
                   std::int32_t max_tokens, std::int32_t vocab_size) {
  if (tokens.size() > static_cast<std::size_t>(max_tokens)) {
    return InvalidArgument(
        fmt::format("{} has {} tokens; expected at most {}", field, tokens.size(), max_tokens));
  }
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    if (tokens[t] >= 0 && tokens[t] < vocab_size) continue;
    return InvalidArgument(
        fmt::format("{}[{}] = {}; expected a token in [0, {})", field, t, tokens[t], vocab_size));
  }
  return OkStatus();
}

Status CheckLogprobs(const Completion& completion) {
  if (completion.logprobs.size() != completion.token_ids.size()) {
    return InvalidArgument(fmt::format("{} log-probs for {} tokens; expected one each",
                                       completion.logprobs.size(), completion.token_ids.size()));
  }
  for (std::size_t t = 0; t < completion.logprobs.size(); ++t) {
    const float logprob = completion.logprobs[t];
    if (logprob >= kMinLogprob && logprob <= kMaxLogprob) continue;
    return InvalidArgument(fmt::format("logprobs[{}] = {:f}; expected a number from {} to 0", t,
                                       logprob, kMinLogprob));
  }
  return OkStatus();
}

Status CheckSegments(const Completion& completion) {
  const auto tokens = static_cast<std::int32_t>(completion.token_ids.size());
  const std::vector<Segment>& segments = completion.segments;
  if (segments.empty() != (tokens == 0)) {
    return InvalidArgument(
        fmt::format("{} segments for {} tokens; expected segments that cover all tokens",
                    segments.size(), tokens));
  }
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::int32_t first = segments[i].first_token;
    const bool in_order = i == 0 ? first == 0 : first > segments[i - 1].first_token;
    if (!in_order || first >= tokens) {
      return InvalidArgument(fmt::format(
          "segments[{}].first_token = {}; expected 0 for the first, then rising, below {}", i,
          first, tokens));
    }
    if (i > 0 && OlderThan(segments[i].version, segments[i - 1].version)) {
      return InvalidArgument(
          fmt::format("segments[{}].version = {} is older than the segment before it, {}", i,
                      ToString(segments[i].version), ToString(segments[i - 1].version)));
    }
  }
  return OkStatus();
}

Status CheckTrainedSpans(const Completion& completion) {
  const auto tokens = static_cast<std::int32_t>(completion.token_ids.size());
  std::int32_t last_end = 0;
  for (std::size_t i = 0; i < completion.trained_spans.size(); ++i) {
    const TokenSpan& span = completion.trained_spans[i];
    if (span.begin < last_end || span.end <= span.begin || span.end > tokens) {
      return InvalidArgument(
          fmt::format("trained_spans[{}] = [{}, {}); expected a span that is not empty, begins at "
                      "{} or later and ends by {}",
                      i, span.begin, span.end, last_end, tokens));
    }
    last_end = span.end;
  }
  return OkStatus();
}

// The first component is the raw reward, and the weighted sum of all is the reward. Without
// components both are one.
Status CheckComponents(const Completion& completion) {
  const std::vector<RewardComponent>& components = completion.components;
  if (components.empty()) {
    if (completion.reward == completion.raw_reward) return OkStatus();
    return InvalidArgument(fmt::format("raw_reward = {}, reward = {}, but no components",
                                       completion.raw_reward, completion.reward));
  }
  if (components.size() > kMaxRewardTerms) {
    return InvalidArgument(fmt::format("{} reward components; expected at most {}",
                                       components.size(), kMaxRewardTerms));
  }
  double sum = 0;
  double rounding = 0;
  for (const RewardComponent& component : components) {
    if (!IsReward(component.value) || !IsReward(component.weight)) {
      return InvalidArgument(
          fmt::format("component '{}' = {} with weight {}; expected numbers in [-{}, {}]",
                      component.name, component.value, component.weight, kMaxReward, kMaxReward));
    }
    sum += component.weight * component.value;
    rounding += kRelativeRounding * std::abs(component.weight * component.value);
  }
  const bool adds_up = std::abs(completion.reward - sum) <= rounding;
  if (adds_up && completion.raw_reward == components.front().value) return OkStatus();
  return InvalidArgument(
      fmt::format("raw_reward = {}, reward = {}, but its components give {} and {}",
                  completion.raw_reward, completion.reward, components.front().value, sum));
}

Status CheckVerdict(const Completion& completion) {
  if (completion.finish_reason == FinishReason::kUnspecified)
    return InvalidArgument("finish_reason is not set");
  if (completion.outcome == Outcome::kUnspecified) return InvalidArgument("outcome is not set");
  if (completion.outcome == Outcome::kUnscorable) {
    if (completion.unscorable_reason.empty())
      return InvalidArgument("unscorable_reason is empty; expected why the outcome is unscorable");
    return OkStatus();
  }
  if (completion.token_ids.empty())
    return InvalidArgument("no tokens; only an unscorable completion may have none");
  if (!IsReward(completion.raw_reward) || !IsReward(completion.reward)) {
    return InvalidArgument(fmt::format(
        "raw_reward = {}, reward = {}; expected numbers in [-{}, {}], or outcome unscorable",
        completion.raw_reward, completion.reward, kMaxReward, kMaxReward));
  }
  return CheckComponents(completion);
}

Status CheckCompletion(const Completion& completion, const GroupLimits& limits) {
  BUTTRESS_RETURN_IF_ERROR(CheckTokens("token_ids", completion.token_ids,
                                       limits.max_completion_tokens, limits.vocab_size));
  BUTTRESS_RETURN_IF_ERROR(CheckLogprobs(completion));
  BUTTRESS_RETURN_IF_ERROR(CheckSegments(completion));
  BUTTRESS_RETURN_IF_ERROR(CheckTrainedSpans(completion));
  BUTTRESS_RETURN_IF_ERROR(CheckVerdict(completion));
  BUTTRESS_RETURN_IF_ERROR(
      CheckText("unscorable_reason", completion.unscorable_reason, true, kMaxReasonBytes));
  BUTTRESS_RETURN_IF_ERROR(CheckText("parent_id", completion.parent_id, true, kMaxIdBytes));
  for (const RewardComponent& component : completion.components) {
    BUTTRESS_RETURN_IF_ERROR(CheckText("components.name", component.name, false, kMaxTermBytes));
  }
  if (completion.extracted_answer.size() > kMaxExtractedBytes) {
    return InvalidArgument(fmt::format("extracted_answer has {} bytes; expected at most {}",
                                       completion.extracted_answer.size(), kMaxExtractedBytes));
  }
  if (!std::isfinite(completion.generation_seconds) || completion.generation_seconds < 0) {
    return InvalidArgument(
        fmt::format("generation_seconds = {}; expected 0 or more", completion.generation_seconds));
  }
  return OkStatus();
}

bool SameComponents(const Completion& a, const Completion& b) {
  return std::ranges::equal(a.components, b.components, {}, &RewardComponent::name,
                            &RewardComponent::name);
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
        fmt::format("plan: the sources count {} groups, the step {}; expected "
                    "the same counts",
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

}  // namespace

Status CheckGroup(const Group& group, const GroupLimits& limits) {
  BUTTRESS_RETURN_IF_ERROR(CheckText("prompt_id", group.prompt_id, false, kMaxIdBytes));
  BUTTRESS_RETURN_IF_ERROR(CheckText("source", group.source, false, kMaxIdBytes));
  BUTTRESS_RETURN_IF_ERROR(CheckText("worker_id", group.worker_id, false, kMaxIdBytes));
  if (group.prompt_token_ids.empty()) return InvalidArgument("prompt_token_ids is empty");
  BUTTRESS_RETURN_IF_ERROR(CheckTokens("prompt_token_ids", group.prompt_token_ids,
                                       limits.max_prompt_tokens, limits.vocab_size));
  const std::size_t count = group.completions.size();
  if (count == 0 || count > static_cast<std::size_t>(limits.max_completions)) {
    return InvalidArgument(
        fmt::format("{} completions; expected 1 to {}", count, limits.max_completions));
  }
  std::vector<bool> seen(count, false);
  const Completion* first_scorable = nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    const Completion& completion = group.completions[i];
    const auto index = static_cast<std::size_t>(completion.index);
    if (completion.index < 0 || index >= count || seen[index]) {
      return InvalidArgument(fmt::format("completion {}: index = {}; expected each of 0 to {} once",
                                         i, completion.index, count - 1));
    }
    seen[index] = true;
    if (Status status = CheckCompletion(completion, limits); !status.ok())
      return status.Annotate(fmt::format("completion {}", i));
    if (completion.outcome == Outcome::kUnscorable) continue;
    if (first_scorable == nullptr) first_scorable = &completion;
    if (!SameComponents(*first_scorable, completion)) {
      return InvalidArgument(
          fmt::format("completion {}: its reward components differ from those of completion {}", i,
                      first_scorable->index));
    }
  }
  return OkStatus();
}

Status CheckPlan(const Plan& plan) {
  for (const GroupHeadPtr& group : plan.groups) {
    if (Status status = CheckGroupHead(*group); !status.ok())
      return status.Annotate(fmt::format("plan: group {}", group->group_id()));
  }
  return CheckSources(plan);
}

}  // namespace buttress
