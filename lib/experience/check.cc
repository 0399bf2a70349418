#include "lib/experience/check.h"

#include <utf8proc.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace buttress {
namespace {

std::string Text(std::int64_t value) { return std::to_string(value); }

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

// proto3 cannot parse a string field that is not UTF-8, so such a group could be stored and never
// read again.
Status CheckText(std::string_view field, std::string_view text, bool may_be_empty) {
  if (text.empty() && !may_be_empty) return InvalidArgument(std::string(field) + " is empty");
  if (!IsUtf8(text)) return InvalidArgument(std::string(field) + " is not valid UTF-8");
  return OkStatus();
}

Status CheckTokens(std::string_view field, const std::vector<std::int32_t>& tokens,
                   std::int32_t max_tokens, std::int32_t vocab_size) {
  if (tokens.size() > static_cast<std::size_t>(max_tokens)) {
    return InvalidArgument(std::string(field) + " has " + std::to_string(tokens.size()) +
                           " tokens; expected at most " + Text(max_tokens));
  }
  bool all_good = true;  // without a way out the compiler looks at many tokens at once
  for (const std::int32_t token : tokens) all_good &= token >= 0 && token < vocab_size;
  if (all_good) return OkStatus();
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    if (tokens[t] >= 0 && tokens[t] < vocab_size) continue;
    return InvalidArgument(std::string(field) + "[" + std::to_string(t) + "] = " + Text(tokens[t]) +
                           "; expected a token in [0, " + Text(vocab_size) + ")");
  }
  return OkStatus();
}

Status CheckLogprobs(const Completion& completion) {
  if (completion.logprobs.size() != completion.token_ids.size()) {
    return InvalidArgument(std::to_string(completion.logprobs.size()) + " log-probs for " +
                           std::to_string(completion.token_ids.size()) +
                           " tokens; expected one each");
  }
  bool all_good = true;
  for (const float logprob : completion.logprobs) {
    all_good &= logprob >= -std::numeric_limits<float>::max() && logprob <= kMaxLogprob;
  }
  if (all_good) return OkStatus();
  for (std::size_t t = 0; t < completion.logprobs.size(); ++t) {
    const float logprob = completion.logprobs[t];
    if (std::isfinite(logprob) && logprob <= kMaxLogprob) continue;
    return InvalidArgument("logprobs[" + std::to_string(t) + "] = " + std::to_string(logprob) +
                           "; expected a finite number <= 0");
  }
  return OkStatus();
}

Status CheckSegments(const Completion& completion) {
  const auto tokens = static_cast<std::int32_t>(completion.token_ids.size());
  const std::vector<Segment>& segments = completion.segments;
  if (segments.empty() != (tokens == 0)) {
    return InvalidArgument(std::to_string(segments.size()) + " segments for " + Text(tokens) +
                           " tokens; expected segments that cover all tokens");
  }
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::int32_t first = segments[i].first_token;
    const bool in_order = i == 0 ? first == 0 : first > segments[i - 1].first_token;
    if (!in_order || first >= tokens) {
      return InvalidArgument("segments[" + std::to_string(i) + "].first_token = " + Text(first) +
                             "; expected 0 for the first, then rising, below " + Text(tokens));
    }
    if (i > 0 && OlderThan(segments[i].version, segments[i - 1].version)) {
      return InvalidArgument(
          "segments[" + std::to_string(i) + "].version = " + ToString(segments[i].version) +
          " is older than the segment before it, " + ToString(segments[i - 1].version));
    }
  }
  return OkStatus();
}

Status CheckTrainedSpans(const Completion& completion) {
  const auto tokens = static_cast<std::int32_t>(completion.token_ids.size());
  std::int32_t free_from = 0;
  for (std::size_t i = 0; i < completion.trained_spans.size(); ++i) {
    const TokenSpan& span = completion.trained_spans[i];
    if (span.begin < free_from || span.end <= span.begin || span.end > tokens) {
      return InvalidArgument("trained_spans[" + std::to_string(i) + "] = [" + Text(span.begin) +
                             ", " + Text(span.end) +
                             "); expected a span that is not empty, begins at " + Text(free_from) +
                             " or later and ends by " + Text(tokens));
    }
    free_from = span.end;
  }
  return OkStatus();
}

Status CheckVerdict(const Completion& completion) {
  if (completion.finish_reason == FinishReason::kUnspecified)
    return InvalidArgument("finish_reason is not set");
  if (completion.outcome == Outcome::kUnspecified) return InvalidArgument("outcome is not set");
  if (completion.outcome == Outcome::kUnscorable) {
    if (completion.unscorable_reason.empty())
      return InvalidArgument("unscorable_reason is empty; an unscorable completion says why");
    return OkStatus();
  }
  if (completion.token_ids.empty())
    return InvalidArgument("no tokens; only an unscorable completion may have none");
  if (!std::isfinite(completion.raw_reward) || !std::isfinite(completion.reward)) {
    return InvalidArgument("raw_reward = " + std::to_string(completion.raw_reward) +
                           ", reward = " + std::to_string(completion.reward) +
                           "; expected finite numbers, or outcome unscorable");
  }
  for (const RewardComponent& component : completion.components) {
    if (std::isfinite(component.value) && std::isfinite(component.weight)) continue;
    return InvalidArgument("component '" + component.name +
                           "' = " + std::to_string(component.value) + " with weight " +
                           std::to_string(component.weight) + "; expected finite numbers");
  }
  return OkStatus();
}

Status CheckCompletion(const Completion& completion, const GroupLimits& limits) {
  BUTTRESS_RETURN_IF_ERROR(CheckTokens("token_ids", completion.token_ids,
                                       limits.max_completion_tokens, limits.vocab_size));
  BUTTRESS_RETURN_IF_ERROR(CheckLogprobs(completion));
  BUTTRESS_RETURN_IF_ERROR(CheckSegments(completion));
  BUTTRESS_RETURN_IF_ERROR(CheckTrainedSpans(completion));
  BUTTRESS_RETURN_IF_ERROR(CheckVerdict(completion));
  BUTTRESS_RETURN_IF_ERROR(CheckText("unscorable_reason", completion.unscorable_reason, true));
  BUTTRESS_RETURN_IF_ERROR(CheckText("parent_id", completion.parent_id, true));
  for (const RewardComponent& component : completion.components) {
    BUTTRESS_RETURN_IF_ERROR(CheckText("components.name", component.name, false));
  }
  if (!std::isfinite(completion.generation_seconds) || completion.generation_seconds < 0) {
    return InvalidArgument("generation_seconds = " + std::to_string(completion.generation_seconds) +
                           "; expected 0 or more");
  }
  return OkStatus();
}

bool SameComponents(const Completion& a, const Completion& b) {
  if (a.components.size() != b.components.size()) return false;
  for (std::size_t i = 0; i < a.components.size(); ++i) {
    if (a.components[i].name != b.components[i].name) return false;
  }
  return true;
}

}  // namespace

Status CheckGroup(const Group& group, const GroupLimits& limits) {
  BUTTRESS_RETURN_IF_ERROR(CheckText("prompt_id", group.prompt_id, false));
  BUTTRESS_RETURN_IF_ERROR(CheckText("source", group.source, false));
  BUTTRESS_RETURN_IF_ERROR(CheckText("worker_id", group.worker_id, false));
  if (group.prompt_token_ids.empty()) return InvalidArgument("prompt_token_ids is empty");
  BUTTRESS_RETURN_IF_ERROR(CheckTokens("prompt_token_ids", group.prompt_token_ids,
                                       limits.max_prompt_tokens, limits.vocab_size));
  const std::size_t count = group.completions.size();
  if (count == 0 || count > static_cast<std::size_t>(limits.max_completions)) {
    return InvalidArgument(std::to_string(count) + " completions; expected 1 to " +
                           Text(limits.max_completions));
  }
  std::vector<bool> seen(count, false);
  const Completion* first_scorable = nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    const Completion& completion = group.completions[i];
    const std::string where = "completion " + std::to_string(i);
    const auto index = static_cast<std::size_t>(completion.index);
    if (completion.index < 0 || index >= count || seen[index]) {
      return InvalidArgument(where + ": index = " + Text(completion.index) +
                             "; expected each of 0 to " + std::to_string(count - 1) + " once");
    }
    seen[index] = true;
    if (Status status = CheckCompletion(completion, limits); !status.ok())
      return status.Annotate(where);
    if (completion.outcome == Outcome::kUnscorable) continue;
    if (first_scorable == nullptr) first_scorable = &completion;
    if (!SameComponents(*first_scorable, completion)) {
      return InvalidArgument(where + ": its reward components differ from those of completion " +
                             Text(first_scorable->index));
    }
  }
  return OkStatus();
}

}  // namespace buttress
