#include "cli/verifier_audit.h"

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

}  // namespace

VerifierAudit::VerifierAudit(const Verifier& verifier, bool extracts)
    : verifier_(verifier), extracts_(extracts), checks_(kChecks) {
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

Outcome VerifierAudit::Judge(const VerifyRow& row, AuditCheck& check, std::string_view what,
                             const std::string& response, const std::string& answer,
                             bool expect_correct) {
  Verdict verdict = verifier_.Verify({.prompt = row.prompt,
                                      .response = response,
                                      .answer = answer,
                                      .extra_json = row.json,
                                      .truncated = false});
  const Outcome outcome = verdict.outcome;
  ++check.tried;
  if ((outcome == Outcome::kCorrect) == expect_correct) return outcome;
  ++check.failed;
  if (check.examples.size() < kMaxAuditExamples)
    check.examples.push_back({row.id, std::string(what), answer, response, std::move(verdict)});
  return outcome;
}

void VerifierAudit::CheckAnswer(const VerifyRow& row) {
  for (const char* response : {"", "I do not know."})
    Judge(row, checks_[kNothing], "gives up", response, row.answer, false);
  if (!extracts_) {
    Judge(row, checks_[kGold], "as it is", row.answer, row.answer, true);
    return;
  }
  const std::string answer = BareAnswer(row.answer);
  if (answer.empty()) return;
  if (Judge(row, checks_[kGold], "boxed", Boxed(answer), row.answer, true) != Outcome::kCorrect)
    return;
  for (const FormatVariant& variant : FormatVariants(answer))
    Judge(row, checks_[kFormats], variant.name, variant.response, row.answer, true);
  for (const NearMiss& miss : NearMisses(answer, kMisses)) {
    Judge(row, checks_[kPerturbed], miss.rule, Boxed(miss.text), row.answer, false);
    Judge(row, checks_[kBothWays], miss.rule, Boxed(answer), Boxed(miss.text), false);
  }
}

void VerifierAudit::CountLabels(const VerifyRow& row) {
  if (row.labels.empty()) return;
  LabelledGroup group;
  std::vector<double> rewards;
  std::vector<Outcome> outcomes;
  for (std::size_t i = 0; i < row.responses.size(); ++i) {
    const Verdict verdict = verifier_.Verify({.prompt = row.prompt,
                                              .response = row.responses[i],
                                              .answer = row.answer,
                                              .extra_json = row.json,
                                              .truncated = false});
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

void VerifierAudit::Add(const VerifyRow& row) {
  CheckAnswer(row);
  CountLabels(row);
}

}  // namespace buttress
