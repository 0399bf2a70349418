// Partial completions: what a worker has sampled of a group that it does not finish. A lease that
// follows continues behind these tokens instead of sampling them again, so that a long completion
// outlives its worker ("partial rollouts", Kimi k1.5, arXiv 2501.12599).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/report/status.h"
#include "lib/experience/types.h"

namespace buttress {

// The tokens from first_token up to the next segment were sampled from `version`.
struct Segment {
  std::int32_t first_token = 0;
  PolicyVersion version;

  bool operator==(const Segment&) const = default;
};

// T tokens of a completion, from `first_token` on.
struct PartialCompletion {
  std::int32_t completion = 0;  // its index in the group
  std::int32_t first_token = 0;
  std::vector<std::int32_t> token_ids;  // [T]
  std::vector<float> logprobs;          // [T], nats
  // In order; cover all tokens. Their first tokens are indices in the completion.
  std::vector<Segment> segments;
  // kStop or kLength if the completion has ended with the last of these tokens, else kUnspecified.
  FinishReason finish_reason = FinishReason::kUnspecified;

  // One past the index of the last token.
  std::int32_t end() const { return first_token + static_cast<std::int32_t>(token_ids.size()); }

  bool ended() const { return finish_reason != FinishReason::kUnspecified; }

  // Keeps the tokens before index `end`. REQUIRES: it is not in front of first_token.
  void Cut(std::int32_t end);

  // Adds the tokens of `next`. REQUIRES: they begin at end().
  void Append(PartialCompletion next);

  bool operator==(const PartialCompletion&) const = default;
};

// Returns the tokens from `first` on of a completion with these tokens and segments. REQUIRES:
// `first` is the index of one of them.
PartialCompletion PartFrom(std::int32_t completion, std::int32_t first,
                           std::span<const std::int32_t> token_ids, std::span<const float> logprobs,
                           std::span<const Segment> segments);

// The lease stays unset.
v1::PartialCompletion ToProto(const PartialCompletion& partial);

// There are tokens, as many log-probs, which are numbers, and versions that cover them and do not
// become older; the indices are not negative, and finish_reason is one of the above.
Result<PartialCompletion> FromProto(const v1::PartialCompletion& proto);

}  // namespace buttress
