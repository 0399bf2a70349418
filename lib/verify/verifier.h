// Verifiable rewards. A verdict is correct, wrong, or unscorable with a reason. A failure never
// becomes a silent reward of 0.
//
// A response is wrong if it does not give the right answer, and unscorable if it cannot be judged,
// for example because the reference answer is malformed. An answer at the end of a truncated
// response might have continued ("12" of "123") and does not count: such a response is wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/types.h"

namespace buttress {

// One completion to score. Verification is the only stage after the engine that reads text.
struct VerifyRequest {
  std::string_view prompt;       // rendered prompt text
  std::string_view response;     // decoded completion, special tokens removed
  std::string_view answer;       // the dataset's reference answer
  std::string_view extra_json;   // the dataset's row, with the prompt as its field "prompt"
  bool truncated = false;        // the completion reached the token limit
  std::int64_t tokens = -1;      // length of the completion; -1: unknown
  std::string_view source = {};  // the data source that the dataset names
  std::span<const std::int32_t> token_ids = {};  // of the completion; empty: unknown
  std::int64_t step = -1;   // steps that the policy had been trained when it sampled; -1: unknown
  std::int64_t steps = -1;  // steps of the run; -1: unknown
  bool explain = false;     // fill Verdict::explanation, which takes as long as verifying
};

// What math, number and choice read, and why they judged so; of other verifiers empty.
struct Explanation {
  std::string given_text;   // the answer in the response, verbatim but for Markdown
  std::string gold_text;    // the answer in the reference
  std::string gold_anchor;  // the rule that located it
  std::string why;          // "the response hedges between 5 and 6"
};

// The verdict of one verifier of a weighted sum.
struct VerdictPart {
  std::string name;
  double weight = 1;
  Outcome outcome = Outcome::kUnscorable;
  double raw_reward = 0;
  std::string unscorable_reason;
  double seconds = 0;
  bool not_applicable = false;
};

struct Verdict {
  Outcome outcome = Outcome::kUnscorable;
  // 1 correct, 0 wrong, or partial credit; of a weighted sum the deciding part's.
  double raw_reward = 0;
  std::string unscorable_reason = {};   // set if unscorable
  std::string given = {};               // canonical form of the answer in the response
  std::string gold = {};                // canonical form of the reference
  std::string anchor = {};              // the rule that located the answer, if there are several
  std::vector<VerdictPart> parts = {};  // of a weighted sum; empty for a single verifier
  // Unscorable because the verifier is not for this row, which is no failure: in a weighted sum the
  // part is left out.
  bool not_applicable = false;
  Explanation explanation = {};  // where VerifyRequest::explain asks for it
};

Verdict Correct(std::string given, std::string gold);
Verdict Wrong(std::string given, std::string gold);
Verdict Unscorable(std::string reason);
Verdict NotApplicable(std::string reason);

// Why a completion is unscorable that took longer than run.reward.timeout_ms: begins with
// kTimeoutReason and names the setting.
inline constexpr std::string_view kTimeoutReason = "timeout";
std::string TimeoutReason(std::int64_t timeout_ms);

// Returns the raw reward of the completion: that of the verdict, or of a weighted sum the sum over
// its parts of weight * raw reward.
double TotalReward(const Verdict& verdict);

// A way of scoring completions. Implementations are thread-safe, because several threads call
// Verify concurrently, and bound their time and memory for every input.
class Verifier {
 public:
  virtual ~Verifier() = default;
  virtual Verdict Verify(const VerifyRequest& request) const = 0;

  // Whether a verdict holds however long Verify took, because Verify knows whose time it was. The
  // caller makes other late verdicts unscorable.
  virtual bool bounds_time() const { return false; }

  // Whether the verdict of a completion may depend on the others of its prompt. VerifyGroup of such
  // a verifier must get all of them at once; requests that are scored alone are groups of one.
  virtual bool whole_groups() const { return false; }

  // Returns a verdict for each request, in their order. REQUIRES: the requests are completions of
  // one prompt.
  virtual std::vector<Verdict> VerifyGroup(std::span<const VerifyRequest> requests) const;
};

// A case whose outcome is known for every setting of the verifier except those of run.reward.math.
// A verifier must judge its known answers before it scores anything. A verifier whose outcomes all
// depend on its settings has none; one that starts processes tests itself when it is made.
struct KnownAnswer {
  std::string_view response;
  std::string_view answer;
  Outcome outcome;
};

// One row of the table of verifiers. `buttress verify --list` and docs/verifiers.md print it.
struct VerifierEntry {
  // The name in run.reward, followed by an argument if `meaning` says so: python:FILE:FUNCTION.
  std::string_view name;
  Result<std::unique_ptr<Verifier>> (*make)(const RewardConfig& config, std::string_view argument);
  std::string_view meaning;        // when a completion is correct, in one line
  std::string_view settings = "";  // the keys that it reads in addition to those of every verifier
  std::string_view source = "";    // the paper, data set or standard that defines it
  std::span<const KnownAnswer> known_answers = {};
};

std::span<const VerifierEntry> VerifierTable();

// Makes the verifier that `text` names ("math"), or a weighted sum ("math + 0.2 * format"; see
// lib/config/reward_text.h), and tests it on its known answers. Returns kInvalidArgument with the
// known names for a name that is unknown.
Result<std::unique_ptr<Verifier>> MakeVerifier(std::string_view text, const RewardConfig& config);

// Returns kInternal with the first case that `verifier` judges differently.
Status CheckKnownAnswers(std::string_view name, const Verifier& verifier,
                         std::span<const KnownAnswer> known_answers);

// The verifier of each data source, as RewardConfig configures them. Thread-safe.
class VerifierSet {
 public:
  static Result<std::unique_ptr<VerifierSet>> Make(const RewardConfig& config);
  virtual ~VerifierSet() = default;

  // Return the verifier of `source` and its name in metrics: for a sum, the name of its first part,
  // which determines the outcome.
  virtual const Verifier& For(std::string_view source) const = 0;
  virtual std::string_view NameFor(std::string_view source) const = 0;

  // Returns the name of each verifier once: the names that NameFor and Verdict::parts contain.
  virtual std::vector<std::string> names() const = 0;
};

}  // namespace buttress
