// What can be said of a verifier without a second opinion: metamorphic checks on a file's answers,
// and its errors against labels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verify_rows.h"
#include "lib/rl/acr.h"
#include "lib/verify/audit/label_noise.h"
#include "lib/verify/verifier.h"

namespace buttress {

// A verdict that a check did not expect.
struct AuditFailure {
  std::string id;
  std::string what;  // the rule or variant
  std::string answer;
  std::string response;
  Verdict verdict;
};

struct AuditCheck {
  std::string_view name;
  std::string_view meaning;
  std::int64_t tried = 0;
  std::int64_t failed = 0;
  std::vector<AuditFailure> examples = {};  // the first kMaxAuditExamples
};

inline constexpr std::size_t kMaxAuditExamples = 100;

// Errors against labels. Unscorable completions are no trials: they never train.
struct LabelNoise {
  ErrorRate false_positive;  // of completions labelled wrong, judged correct
  ErrorRate false_negative;  // of completions labelled correct, judged wrong
  std::int64_t unscorable = 0;
  CollapseCounts measured;            // of groups, by verdicts
  std::vector<LabelledGroup> groups;  // the same groups by labels
};

// Not thread-safe.
class VerifierAudit {
 public:
  // `announced`: the verifier looks for an answer in a text (math, number); others get the checks
  // that hold for all.
  VerifierAudit(const Verifier& verifier, bool announced);

  void Add(const VerifyRow& row);

  const std::vector<AuditCheck>& checks() const { return checks_; }

  const LabelNoise& noise() const { return noise_; }

 private:
  Outcome Judge(const VerifyRow& row, AuditCheck& check, std::string_view what,
                const std::string& response, const std::string& answer, bool expect_correct);
  void CheckAnswer(const VerifyRow& row);
  void CountLabels(const VerifyRow& row);

  const Verifier& verifier_;
  const bool announced_;
  std::vector<AuditCheck> checks_;
  LabelNoise noise_;
};

}  // namespace buttress
