// Checks of a verifier that need no second verifier: metamorphic checks on the answers of a file,
// and error rates against labels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/prepare/verify.h"
#include "lib/rl/collapse/acr.h"
#include "lib/verify/audit/label_noise.h"
#include "lib/verify/verifier.h"

namespace buttress {

// A verdict that differs from what a check expects.
struct AuditFailure {
  std::string id;
  std::string what;  // the rule or format variant that made the response
  std::string answer;
  std::string response;
  Verdict verdict;
};

struct AuditCheck {
  std::string_view name;
  std::string_view meaning;
  std::int64_t tried = 0;
  std::int64_t failed = 0;
  std::vector<AuditFailure> examples = {};  // the first kMaxAuditExamples failures
};

inline constexpr std::size_t kMaxAuditExamples = 100;

// Errors against labels. Unscorable completions are not counted as trials, because they are never
// trained on.
struct LabelNoise {
  ErrorRate false_positive;  // labelled wrong, judged correct
  ErrorRate false_negative;  // labelled correct, judged wrong
  std::int64_t unscorable = 0;
  CollapseCounts measured;            // classes of the groups by the verdicts
  std::vector<LabelledGroup> groups;  // the same groups by their labels
};

// Not thread-safe.
class VerifierAudit {
 public:
  // `extracts`: the verifiers search a text for an answer (math, number). Only such verifiers get
  // the checks on near misses and format variants.
  explicit VerifierAudit(bool extracts);

  // Checks `verifier`, that of the row's source, on the row.
  void Add(const VerifyRow& row, const Verifier& verifier);

  const std::vector<AuditCheck>& checks() const { return checks_; }

  const LabelNoise& noise() const { return noise_; }

 private:
  class Judge;

  void CheckAnswer(const VerifyRow& row, const Judge& judge);
  void CountLabels(const VerifyRow& row, const Verifier& verifier);

  const bool extracts_;
  std::vector<AuditCheck> checks_;
  LabelNoise noise_;
};

}  // namespace buttress
