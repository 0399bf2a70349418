// Access to the columns of a group. The message v1::Group (experience.proto) is the one form of a
// group from worker to loss.
//
// Functions that take a group with an index `i` of a completion, or an index alone, REQUIRE that
// the group has passed CheckGroup. They cost O(n) for n completions, and are pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "buttress/v1/experience.pb.h"
#include "lib/base/report/status.h"
#include "lib/experience/check.h"
#include "lib/experience/group_head.h"
#include "lib/experience/types.h"

namespace buttress {

std::span<const std::int32_t> PromptOf(const v1::Group& group);
std::span<const std::int32_t> TokensOf(const v1::Group& group, int i);
std::span<const float> LogprobsOf(const v1::Group& group, int i);

// Returns the trained tokens in order; all of them as one span if the group names none.
std::vector<TokenSpan> TrainedSpansOf(const v1::Group& group, int i);

// Tokens that were sampled from one version.
struct VersionSpan {
  TokenSpan tokens;
  int version = 0;  // index into head.versions
};

// Returns which version sampled which tokens; the spans are in order and cover all tokens.
std::vector<VersionSpan> VersionSpansOf(const v1::Group& group, int i);

// These return nothing where the column is empty.
std::string_view UnscorableReasonOf(const v1::Group& group, int i);
std::string_view ExtractedAnswerOf(const v1::Group& group, int i);
Outcome SecondOutcomeOf(const v1::Group& group, int i);

// Appends a completion without its reward, trained whole if it is scorable.
void AppendTokens(v1::Group& group, std::span<const std::int32_t> token_ids,
                  std::span<const float> logprobs, FinishReason finish_reason);
// Appends its reward. `components` has one value for each name of the head, or none if the outcome
// is unscorable, and the rewards are 0 then. REQUIRES: AppendTokens appended the completion.
void AppendReward(v1::GroupHead& head, Outcome outcome, double raw_reward, double reward,
                  std::span<const double> components = {});

// Fills the columns of the head that follow from the tokens: sums of log-probs, digests, sketches,
// and how many the policy sampled.
// REQUIRES: the group has passed CheckGroup.
void FillDerivedColumns(v1::Group& group);

// Parses a payload that has been checked before. kInvalidArgument for bytes that are not a group.
Result<v1::Group> ParseGroup(std::string_view bytes);

// Parses and checks a payload. kInvalidArgument as well for a group that CheckGroup refuses.
Result<v1::Group> DecodeGroup(std::string_view bytes, const GroupLimits& limits = {});

}  // namespace buttress
