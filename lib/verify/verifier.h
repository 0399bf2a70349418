// Verifiable rewards. A verdict is correct, wrong, or unscorable with a reason; a failure never
// becomes a silent 0.
//
// Wrong is a response that does not hold the right answer, whatever else it holds; unscorable is
// one that cannot be judged, as when the dataset's answer makes no sense. An answer that touches
// the end of a truncated response might have gone on ("12" of "123"), so it is no answer: such a
// response is wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/types.h"

namespace buttress {

// What is scored: text, because verification is the one place behind the engine that reads text.
struct VerifyRequest {
  std::string_view prompt;       // rendered prompt text
  std::string_view response;     // decoded completion, special tokens removed
  std::string_view answer;       // the dataset's reference answer
  std::string_view extra_json;   // the dataset's row
  bool truncated = false;        // cut at the token limit
  std::int64_t tokens = -1;      // of the completion; -1 = not known
  std::string_view source = {};  // the dataset's name for where the prompt comes from
};

// What one verifier of a sum said.
struct VerdictPart {
  std::string name;
  double weight = 1;
  Outcome outcome = Outcome::kUnscorable;
  double raw_reward = 0;
  std::string unscorable_reason;
  double seconds = 0;
};

struct Verdict {
  Outcome outcome = Outcome::kUnscorable;
  double raw_reward = 0;          // 1 correct, 0 wrong, or partial credit
  std::string unscorable_reason;  // set if unscorable
  std::string given;              // canonical form of what was extracted from the response
  std::string gold;               // canonical form of the reference
  std::string
      // by what the answer was found in the response, where the verifier knows several ways
      anchor;
  std::vector<VerdictPart> parts;  // of a weighted sum; empty if one verifier judged alone
};

Verdict Correct(std::string given, std::string gold);
Verdict Wrong(std::string given, std::string gold);
Verdict Unscorable(std::string reason);

// The shaped total: the raw reward, or over the parts the sum of weight * raw reward.
double ShapedReward(const Verdict& verdict);

// One way of scoring. Thread-safe: Verify is called from several threads at once. Bounded time and
// memory for any input.
class Verifier {
 public:
  virtual ~Verifier() = default;
  virtual Verdict Verify(const VerifyRequest& request) const = 0;

  // How many requests VerifyBatch gains from seeing together.
  virtual std::size_t batch() const { return 1; }

  // A verdict for each request, in their order. At most batch() requests.
  virtual std::vector<Verdict> VerifyBatch(std::span<const VerifyRequest> requests) const;
};

// A case whose outcome is known, under every setting of the verifier, those of run.reward.math
// apart. Judged before a verifier scores anything; a verifier whose every outcome hangs on its
// settings has none, one that starts processes judges its own when it is made.
struct KnownAnswer {
  std::string_view response;
  std::string_view answer;
  Outcome outcome;
};

struct VerifierEntry {
  std::string_view
      name;  // with an argument behind it where `meaning` says so: python:FILE:FUNCTION
  Result<std::unique_ptr<Verifier>> (*make)(const RewardConfig& config, std::string_view argument);
  std::string_view meaning;  // one line for --list
  std::span<const KnownAnswer> known_answers;
};

std::span<const VerifierEntry> VerifierTable();

// The verifier that `text` names ("math"), or the weighted sum that it is ("math + 0.2 * format";
// lib/config/reward_text.h), after each has judged its known answers rightly. kInvalidArgument
// names the known verifiers.
Result<std::unique_ptr<Verifier>> MakeVerifier(std::string_view text, const RewardConfig& config);

// kInternal names the first case that `verifier` judges otherwise.
Status CheckKnownAnswers(std::string_view name, const Verifier& verifier,
                         std::span<const KnownAnswer> known_answers);

// Verifiers by data source, as RewardConfig says. Thread-safe.
class VerifierSet {
 public:
  static Result<std::unique_ptr<VerifierSet>> Make(const RewardConfig& config);
  virtual ~VerifierSet() = default;

  // The verifier of `source`, and its name for metrics: of a sum, the name of the part that
  // decides.
  virtual const Verifier& For(std::string_view source) const = 0;
  virtual std::string_view NameFor(std::string_view source) const = 0;

  // Of all verifiers that score something, each once: what NameFor and Verdict::parts may hold.
  virtual std::vector<std::string> names() const = 0;
};

}  // namespace buttress
