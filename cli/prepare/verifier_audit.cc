#include "cli/prepare/verifier_audit.h"

#include <utility>

#include "lib/verify/audit/variants.h"
#include "lib/verify/math/answer.h"

namespace buttress {
namespace {

constexpr std::size_t kMisses = 10;  // near misses per answer

enum Check { kGold, kNothing, kPerturbed, kFormats, kBothWays, kChecks };

std::string Boxed(std::string_view answer) { return "\\boxed{" + std::string(answer) + "}"; }

// Returns the answer without the solution around it, or "" if it holds none.
std::string BareAnswer(const std::string& answer) {
  const std::vector<std::string> anchors(std::begin(kMathAnchors), std::end(kMathAnchors));
  const std::vector<AnswerCandidate> found = FindAnswers(answer, /*truncated=*/false, anchors);
  return found.empty() || found.front().joined ? "" : found.front().text;
}

Verdict VerdictOf(const VerifyRow& row, const Verifier& verifier, const std::string& response,
                  const std::string& answer) {
  return verifier.Verify({.prompt = row.prompt,
                          .response = response,
                          .answer = answer,
                          .extra_json = row.json,
                          .truncated = false,
                          .source = row.source});
}

}  // namespace

// Compares the verdicts on a row with what is expected.
class VerifierAudit::Judge {
 public:
  Judge(const VerifyRow& row, const Verifier& verifier) : row_(row), verifier_(verifier) {}

  Outcome operator()(AuditCheck& check, std::string_view what, const std::string& response,
                     const std::string& answer, bool expect_correct) const {
    Verdict verdict = VerdictOf(row_, verifier_, response, answer);
    const Outcome outcome = verdict.outcome;
    ++check.tried;
    if ((outcome == Outcome::kCorrect) == expect_correct) return outcome;
    ++check.failed;
    if (check.examples.size() < kMaxAuditExamples)
      check.examples.push_back({row_.id, std::string(what), answer, response, std::move(verdict)});
    return outcome;
  }

 private:
  const VerifyRow& row_;
  const Verifier& verifier_;
};

VerifierAudit::VerifierAudit(bool extracts) : extracts_(extracts), checks_(kChecks) {
  checks_[kGold] = {.name = "gold equals gold", .meaning = "the answer itself is correct"};
  checks_[kNothing] = {.name = "nothing is wrong",
                       .meaning = "an empty response and a refusal are not correct"};
  checks_[kPerturbed] = {
      .name = "perturbed gold differs",
      .meaning = "near misses made by rule are not correct (lib/verify/audit/variants.h)"};
  checks_[kFormats] = {
      .name = "format variants agree",
      .meaning = "the answer in another format is correct (lib/verify/audit/variants.h)"};
  checks_[kBothWays] = {.name = "both ways alike",
                        .meaning = "a near miss as the reference does not make the answer correct"};
}

void VerifierAudit::CheckAnswer(const VerifyRow& row, const Judge& judge) {
  for (const char* response : {"", "I do not know."})
    judge(checks_[kNothing], "gives up", response, row.answer, false);
  if (!extracts_) {
    judge(checks_[kGold], "as it is", row.answer, row.answer, true);
    return;
  }
  const std::string answer = BareAnswer(row.answer);
  if (answer.empty()) return;
  if (judge(checks_[kGold], "boxed", Boxed(answer), row.answer, true) != Outcome::kCorrect) return;
  for (const FormatVariant& variant : FormatVariants(answer))
    judge(checks_[kFormats], variant.name, variant.response, row.answer, true);
  for (const NearMiss& miss : NearMisses(answer, kMisses)) {
    judge(checks_[kPerturbed], miss.rule, Boxed(miss.text), row.answer, false);
    judge(checks_[kBothWays], miss.rule, Boxed(answer), Boxed(miss.text), false);
  }
}

void VerifierAudit::CountLabels(const VerifyRow& row, const Verifier& verifier) {
  if (row.labels.empty()) return;
  LabelledGroup group;
  std::vector<double> rewards;
  std::vector<Outcome> outcomes;
  for (std::size_t i = 0; i < row.responses.size(); ++i) {
    const Verdict verdict = VerdictOf(row, verifier, row.responses[i], row.answer);
    if (verdict.outcome == Outcome::kUnscorable) {
      ++noise_.unscorable;
      continue;
    }
    rewards.push_back(verdict.raw_reward);
    outcomes.push_back(verdict.outcome);
    const bool correct = verdict.outcome == Outcome::kCorrect;
    ErrorRate& rate = row.labels[i] ? noise_.false_negative : noise_.false_positive;
    ++rate.trials;
    if (correct != row.labels[i]) ++rate.errors;
    ++(row.labels[i] ? group.correct : group.wrong);
  }
  if (!row.is_group || outcomes.empty()) return;
  noise_.measured.Add(ClassifyGroup(rewards, outcomes));
  noise_.groups.push_back(group);
}

void VerifierAudit::Add(const VerifyRow& row, const Verifier& verifier) {
  CheckAnswer(row, Judge(row, verifier));
  CountLabels(row, verifier);
}

}  // namespace buttress
