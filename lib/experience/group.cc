#include "lib/experience/group.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>
#include <numeric>

#include "lib/base/text/digest.h"
#include "lib/base/text/minhash.h"
#include "lib/experience/episodes.h"

namespace buttress {
namespace {

static_assert(std::endian::native == std::endian::little,
              "digests and sketches are of numbers as they are in memory");

constexpr std::size_t kTokenDigestBytes = 16;

// Returns the rows of completion `i` in a column over all tokens.
template <class Column>
auto RowsOf(const Column& column, const v1::GroupHead& head, int i) {
  const auto* lengths = head.lengths().data();
  const auto first = std::accumulate(lengths, lengths + i, std::size_t{0});
  return std::span(column.data(), static_cast<std::size_t>(column.size()))
      .subspan(first, static_cast<std::size_t>(lengths[i]));
}

// Returns the sketch of what the policy wrote. What tools, users and templates say is nearly the
// same in all episodes of a prompt.
MinHash SampledSketchOf(const v1::Group& group, int i) {
  const std::span<const std::int32_t> tokens = TokensOf(group, i);
  if (group.head().turns().empty()) return SketchTokens(tokens);
  std::vector<std::int32_t> sampled;
  for (const v1::Turn& turn : group.turns()) {
    if (turn.completion() == i)
      sampled.insert(sampled.end(), tokens.begin() + turn.begin(), tokens.begin() + turn.end());
  }
  return SketchTokens(sampled);
}

}  // namespace

MinHash TokenSketchOf(const v1::GroupHead& head, std::size_t i) {
  MinHash sketch{};
  const std::string& all = head.token_sketches();
  if (all.size() >= (i + 1) * sizeof(sketch))
    std::memcpy(sketch.data(), all.data() + i * sizeof(sketch), sizeof(sketch));
  return sketch;
}

PromptHistory HistoryOf(const v1::GroupHead& head) {
  PromptHistory history(static_cast<std::int64_t>(head.history().correct()),
                        static_cast<std::int64_t>(head.history().scored()));
  history.recent_correct = head.history().recent_correct();
  history.recent_scored = head.history().recent_scored();
  return history;
}

PromptHistory OwnHistoryOf(const v1::GroupHead& head) {
  const std::vector<Outcome> outcomes = VerdictsOf(head).outcomes;
  const auto correct = std::ranges::count(outcomes, Outcome::kCorrect);
  return {correct, correct + std::ranges::count(outcomes, Outcome::kWrong)};
}

std::uint64_t OldestStepOf(const v1::GroupHead& head) {
  return std::ranges::min(head.versions(), {}, &v1::PolicyVersion::step).step();
}

std::span<const std::int32_t> PromptOf(const v1::Group& group) {
  return {group.prompt_token_ids().data(), static_cast<std::size_t>(group.prompt_token_ids_size())};
}

std::span<const std::int32_t> TokensOf(const v1::Group& group, int i) {
  return RowsOf(group.token_ids(), group.head(), i);
}

std::span<const float> LogprobsOf(const v1::Group& group, int i) {
  return RowsOf(group.logprobs(), group.head(), i);
}

std::vector<TokenSpan> TrainedSpansOf(const v1::Group& group, int i) {
  std::vector<TokenSpan> spans;
  for (const v1::TokenSpan& span : group.trained_spans()) {
    if (span.completion() == i) spans.push_back({span.begin(), span.end()});
  }
  if (spans.empty() && group.head().lengths(i) > 0) spans.push_back({0, group.head().lengths(i)});
  return spans;
}

std::vector<VersionSpan> VersionSpansOf(const v1::Group& group, int i) {
  std::vector<VersionSpan> spans;
  for (const v1::Segment& segment : group.segments()) {
    if (segment.completion() != i) continue;
    if (!spans.empty()) spans.back().tokens.end = segment.first_token();
    spans.push_back({{segment.first_token(), group.head().lengths(i)}, segment.version()});
  }
  const bool one_version = group.head().versions_size() == 1 && group.head().lengths(i) > 0;
  if (one_version) spans.push_back({{0, group.head().lengths(i)}, 0});
  return spans;
}

std::string_view UnscorableReasonOf(const v1::Group& group, int i) {
  if (group.unscorable_reasons().empty()) return {};
  return group.unscorable_reasons(i);
}

std::string_view ExtractedAnswerOf(const v1::Group& group, int i) {
  if (group.extracted_answers().empty()) return {};
  return group.extracted_answers(i);
}

Outcome SecondOutcomeOf(const v1::Group& group, int i) {
  if (group.second_outcomes().empty()) return Outcome::kUnspecified;
  return static_cast<Outcome>(group.second_outcomes(i));
}

void AppendTokens(v1::Group& group, std::span<const std::int32_t> token_ids,
                  std::span<const float> logprobs, FinishReason finish_reason) {
  group.mutable_token_ids()->Add(token_ids.begin(), token_ids.end());
  group.mutable_logprobs()->Add(logprobs.begin(), logprobs.end());
  group.mutable_head()->add_lengths(static_cast<std::int32_t>(token_ids.size()));
  group.mutable_head()->add_finish_reasons(static_cast<v1::FinishReason>(finish_reason));
}

void AppendReward(v1::GroupHead& head, Outcome outcome, double raw_reward, double reward,
                  std::span<const double> components) {
  const int i = head.outcomes_size();
  const bool scorable = outcome != Outcome::kUnscorable;
  head.add_outcomes(static_cast<v1::Outcome>(outcome));
  head.add_raw_rewards(scorable ? raw_reward : 0);
  head.add_rewards(scorable ? reward : 0);
  head.add_trained_lengths(scorable ? head.lengths(i) : 0);
  head.mutable_components()->Add(components.begin(), components.end());
  head.mutable_components()->Resize((i + 1) * head.component_names_size(), 0);
}

void FillDerivedColumns(v1::Group& group) {
  v1::GroupHead& head = *group.mutable_head();
  head.clear_logprob_sums();
  std::string digests;
  std::string sketches;
  for (int i = 0; i < Completions(head); ++i) {
    const std::span<const float> logprobs = LogprobsOf(group, i);
    const std::span<const std::int32_t> tokens = TokensOf(group, i);
    head.add_logprob_sums(std::accumulate(logprobs.begin(), logprobs.end(), 0.0));
    digests += Sha256Of({reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()})
                   .substr(0, kTokenDigestBytes);
    const MinHash sketch = SampledSketchOf(group, i);
    sketches.append(reinterpret_cast<const char*>(sketch.data()), sizeof(sketch));
  }
  if (!head.turns().empty()) {
    head.clear_sampled_lengths();
    head.mutable_sampled_lengths()->Resize(Completions(head), 0);
    for (const v1::Turn& turn : group.turns()) {
      const std::int32_t before = head.sampled_lengths(turn.completion());
      head.set_sampled_lengths(turn.completion(), before + turn.end() - turn.begin());
    }
  }
  head.set_token_digests(std::move(digests));
  head.set_token_sketches(std::move(sketches));
}

Result<v1::Group> ParseGroup(std::string_view bytes) {
  v1::Group group;
  if (bytes.size() > static_cast<std::size_t>(INT_MAX) ||
      !group.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidArgument(
        fmt::format("a payload of {} bytes is not a serialized buttress.v1.Group", bytes.size()));
  }
  return group;
}

Result<v1::Group> DecodeGroup(std::string_view bytes, const GroupLimits& limits) {
  BUTTRESS_ASSIGN_OR_RETURN(v1::Group group, ParseGroup(bytes));
  BUTTRESS_RETURN_IF_ERROR(CheckGroup(group, limits));
  return group;
}

}  // namespace buttress
