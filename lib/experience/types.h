// The value types of group-relative RL. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace buttress {

// Numbers equal proto's Outcome, so the wire converts by cast.
enum class Outcome : std::uint8_t { kUnspecified = 0, kCorrect = 1, kWrong = 2, kUnscorable = 3 };

// Numbers equal proto's FinishReason.
enum class FinishReason : std::uint8_t {
  kUnspecified = 0,
  kStop = 1,
  kLength = 2,
  kAbort = 3,
  kError = 4
};

std::string_view OutcomeName(Outcome outcome);

// Which weights. Ordered by learner epoch, then step; the digest says that they are those.
struct PolicyVersion {
  std::uint64_t learner_epoch = 0;
  std::uint64_t step = 0;
  std::string digest;  // 32 bytes, or empty where unknown

  bool operator==(const PolicyVersion&) const = default;
};

// Order by (learner_epoch, step); the digest does not order.
bool OlderThan(const PolicyVersion& a, const PolicyVersion& b);

// "2:14" for logs.
std::string ToString(const PolicyVersion& version);

struct SamplingParams {
  double temperature = 1.0;  // 0 = greedy
  double top_p = 1.0;        // 1 = off
  std::int32_t top_k = 0;    // 0 = off
  std::int32_t max_tokens = 256;
  std::vector<std::int32_t> stop_token_ids;  // beside the model's end-of-sequence tokens
  std::uint64_t seed = 0;

  bool operator==(const SamplingParams&) const = default;
};

// Tokens from first_token on were sampled by `version`, up to the next segment.
struct Segment {
  std::int32_t first_token = 0;
  PolicyVersion version;

  bool operator==(const Segment&) const = default;
};

// Tokens [begin, end).
struct TokenSpan {
  std::int32_t begin = 0;
  std::int32_t end = 0;

  bool operator==(const TokenSpan&) const = default;
};

struct RewardComponent {
  std::string name;
  double value = 0;
  double weight = 1;

  bool operator==(const RewardComponent&) const = default;
};

// One response to a prompt; fields as in proto/buttress/v1/experience.proto.
struct Completion {
  std::int32_t index = 0;
  std::vector<std::int32_t> token_ids;  // [T], the stop token included
  std::vector<float> logprobs;          // [T], nats, under the distribution that was sampled from
  SamplingParams sampling;
  std::vector<Segment> segments;
  std::vector<TokenSpan> trained_spans;  // empty = all
  FinishReason finish_reason = FinishReason::kUnspecified;
  Outcome outcome = Outcome::kUnspecified;
  std::string unscorable_reason;
  double raw_reward = 0;
  double reward = 0;
  std::vector<RewardComponent> components;
  std::string parent_id;
  std::string extracted_answer;
  double generation_seconds = 0;

  bool operator==(const Completion&) const = default;
};

// Tokens of `completion` that are trained.
std::int32_t TrainedLength(const Completion& completion);

// All responses to one prompt.
struct Group {
  std::uint64_t group_id = 0;
  std::string prompt_id;
  std::string source;
  std::vector<std::int32_t> prompt_token_ids;  // [P]
  std::vector<Completion> completions;         // n <= G
  std::string worker_id;

  bool operator==(const Group&) const = default;
};

// Earlier results of a prompt: completions that were correct, and that were correct or wrong.
struct PromptHistory {
  std::int64_t correct = 0;
  std::int64_t scored = 0;

  bool operator==(const PromptHistory&) const = default;
};

}  // namespace buttress
