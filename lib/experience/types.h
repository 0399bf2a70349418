// Values that describe how a completion was sampled and judged. Field by field they match
// proto/buttress/v1/experience.proto; a group is the message itself (group.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace buttress {

// The numbers equal those of v1::Outcome, so that they are cast.
enum class Outcome : std::uint8_t { kUnspecified = 0, kCorrect = 1, kWrong = 2, kUnscorable = 3 };

// The numbers equal those of v1::FinishReason.
enum class FinishReason : std::uint8_t {
  kUnspecified = 0,
  kStop = 1,
  kLength = 2,
  kAbort = 3,
  kError = 4
};

std::string_view OutcomeName(Outcome outcome);

// Identifies the weights after one optimizer step of one learner incarnation.
struct PolicyVersion {
  std::uint64_t learner_epoch = 0;
  std::uint64_t step = 0;
  std::string digest;  // SHA-256 of the manifest, 32 bytes; empty if unknown

  bool operator==(const PolicyVersion&) const = default;
};

// Orders by (learner_epoch, step) and ignores the digest.
bool OlderThan(const PolicyVersion& a, const PolicyVersion& b);

// Returns "epoch:step", such as "2:14".
std::string ToString(const PolicyVersion& version);

struct SamplingParams {
  double temperature = 1.0;  // 0 selects greedy decoding
  double top_p = 1.0;        // 1 disables nucleus sampling
  std::int32_t top_k = 0;    // 0 disables top-k sampling
  std::int32_t max_tokens = 256;
  std::int32_t min_tokens = 0;  // before these, no stop token is sampled and no text ends one
  std::vector<std::int32_t> stop_token_ids;  // every token that ends a completion
  std::vector<std::string> stop;             // every text that ends one, when it is complete
  bool include_stop = false;                 // the response that is judged has the stop text
  std::uint64_t seed = 0;

  bool operator==(const SamplingParams&) const = default;
};

// The tokens [begin, end) of a completion.
struct TokenSpan {
  std::int32_t begin = 0;
  std::int32_t end = 0;

  bool operator==(const TokenSpan&) const = default;
};

// Completions of a prompt's earlier groups: those judged correct, and those judged correct or
// wrong. The recent ones are the same sums with less weight for older groups.
struct PromptHistory {
  std::int64_t correct = 0;
  std::int64_t scored = 0;
  double recent_correct = 0;
  double recent_scored = 0;

  PromptHistory() = default;

  // The history after one group.
  PromptHistory(std::int64_t group_correct, std::int64_t group_scored);

  // Adds a newer group with these results; recent sums before it weigh `decay` of what they did. A
  // group without a scored completion changes nothing.
  void Add(const PromptHistory& group, double decay);

  bool operator==(const PromptHistory&) const = default;
};

}  // namespace buttress
