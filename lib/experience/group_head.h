// Views of v1::GroupHead, the columns of a group: typed spans and what follows from one head. The
// message itself is what the ledger keeps, what a plan holds and what estimators read.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "buttress/v1/experience.pb.h"
#include "lib/base/text/minhash.h"
#include "lib/experience/collapse.h"
#include "lib/experience/types.h"

namespace buttress {

// A head does not change once its group is accepted.
using GroupHeadPtr = std::shared_ptr<const v1::GroupHead>;

// Return the number of completions, n.
inline int Completions(const v1::GroupHead& head) { return head.outcomes_size(); }

inline std::size_t CompletionsOf(const v1::GroupHead& head) {
  return static_cast<std::size_t>(head.outcomes_size());
}

// The columns, [n] each.
inline std::span<const double> RawRewardsOf(const v1::GroupHead& head) {
  return {head.raw_rewards().data(), CompletionsOf(head)};
}

inline std::span<const double> RewardsOf(const v1::GroupHead& head) {
  return {head.rewards().data(), CompletionsOf(head)};
}

template <std::integral Index>
Outcome OutcomeOf(const v1::GroupHead& head, Index i) {
  return static_cast<Outcome>(head.outcomes(static_cast<int>(i)));
}

template <std::integral Index>
FinishReason FinishReasonOf(const v1::GroupHead& head, Index i) {
  return static_cast<FinishReason>(head.finish_reasons(static_cast<int>(i)));
}

template <std::integral Index>
bool IsScorable(const v1::GroupHead& head, Index i) {
  return OutcomeOf(head, i) != Outcome::kUnscorable;
}

// Returns whether the completion was cut at the token limit.
template <std::integral Index>
bool IsTruncated(const v1::GroupHead& head, Index i) {
  return FinishReasonOf(head, i) == FinishReason::kLength;
}

// Returns the tokens that the policy sampled of each completion, [n].
inline const google::protobuf::RepeatedField<std::int32_t>& SampledLengthsOf(
    const v1::GroupHead& head) {
  return head.sampled_lengths().empty() ? head.lengths() : head.sampled_lengths();
}

// Return the tokens that the policy sampled of all completions, and of them those in the loss.
inline std::int64_t TokensOf(const v1::GroupHead& head) {
  const auto& lengths = SampledLengthsOf(head);
  return std::reduce(lengths.begin(), lengths.end(), std::int64_t{0});
}

inline std::int64_t TrainedTokensOf(const v1::GroupHead& head) {
  return std::reduce(head.trained_lengths().begin(), head.trained_lengths().end(), std::int64_t{0});
}

// Returns the parts of the reward of a completion, [C].
inline std::span<const double> ComponentsOf(const v1::GroupHead& head, std::size_t i) {
  const auto parts = static_cast<std::size_t>(head.component_names_size());
  return std::span<const double>(head.components().data(),
                                 static_cast<std::size_t>(head.components_size()))
      .subspan(i * parts, parts);
}

// Returns the digest of a completion's tokens, 16 bytes.
inline std::string_view TokenDigestOf(const v1::GroupHead& head, std::size_t i) {
  constexpr std::size_t kBytes = 16;
  return std::string_view(head.token_digests()).substr(i * kBytes, kBytes);
}

// Returns the sketch of a completion's tokens.
MinHash TokenSketchOf(const v1::GroupHead& head, std::size_t i);

inline CollapseClass ClassOf(const v1::GroupHead& head) {
  return static_cast<CollapseClass>(head.collapse());
}

// Returns the history of the prompt before the group.
PromptHistory HistoryOf(const v1::GroupHead& head);

// Returns the probability with which the prompt was drawn when its turn came, in (0, 1].
inline double DrawProbabilityOf(const v1::GroupHead& head) {
  return head.history().has_draw_probability() ? head.history().draw_probability() : 1;
}

// Returns what the group adds to the history of its prompt.
PromptHistory OwnHistoryOf(const v1::GroupHead& head);

// Returns the step of the version whose age counts: the one with the fewest optimizer steps.
// REQUIRES: a version sampled the group.
std::uint64_t OldestStepOf(const v1::GroupHead& head);

}  // namespace buttress
