#include "cli/prepare/verifier_audit.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/prepare/verify.h"
#include "lib/verify/audit/controls.h"
#include "lib/verify/audit/variants.h"

namespace buttress {
namespace {

constexpr std::size_t kMisses = 10;  // near misses per answer

enum Check { kGold, kNothing, kPerturbed, kFormats, kBothWays, kChecks };

Verdict VerdictOf(const VerifyRow& row, const Verifier& verifier, const std::string& response,
                  const std::string& answer) {
  return verifier.Verify({.prompt = row.prompt,
                          .response = response,
                          .answer = answer,
                          .extra_json = row.json,
                          .truncated = false,
                          .source = row.source});
}

using nlohmann::ordered_json;

struct AuditFlags {
  VerifierFlags verifier;
  std::size_t examples = 5;
  bool json = false;
};

void PrintCheck(const AuditCheck& check, const AuditFlags& flags) {
  const std::size_t shown = std::min(flags.examples, check.examples.size());
  if (!flags.json) {
    fmt::print("{:<24} {:8} tried {:6} failed   {}\n", check.name, check.tried, check.failed,
               check.meaning);
  }
  ordered_json examples = ordered_json::array();
  for (std::size_t i = 0; i < shown; ++i) {
    const AuditFailure& failure = check.examples[i];
    const std::string outcome(OutcomeName(failure.verdict.outcome));
    if (flags.json) {
      examples.push_back({{"id", failure.id},
                          {"what", failure.what},
                          {"answer", failure.answer},
                          {"response", failure.response},
                          {"outcome", outcome},
                          {"reason", failure.verdict.unscorable_reason},
                          {"given", failure.verdict.given},
                          {"gold", failure.verdict.gold}});
    } else {
      const Verdict& verdict = failure.verdict;
      fmt::print("    {}, {}: {} is judged {}: {}\n", failure.id, failure.what, failure.response,
                 outcome,
                 verdict.outcome == Outcome::kUnscorable
                     ? verdict.unscorable_reason
                     : fmt::format("given {}, gold {}", verdict.given, verdict.gold));
    }
  }
  if (flags.json)
    PrintJson({{"check", check.name},
               {"tried", check.tried},
               {"failed", check.failed},
               {"examples", examples}});
}

ordered_json RateJson(const ErrorRate& rate) {
  return {{"errors", rate.errors},
          {"trials", rate.trials},
          {"rate", rate.rate()},
          {"low", rate.low()},
          {"high", rate.high()}};
}

void PrintRate(const char* name, const ErrorRate& rate) {
  fmt::print("{:<24} {:.4f} [{:.4f}, {:.4f}]   {} of {}, 95 % interval\n", name, rate.rate(),
             rate.low(), rate.high(), rate.errors, rate.trials);
}

// Prints how label noise of this size changes the collapse rate that a run would report.
void PrintNoise(const LabelNoise& noise, bool as_json) {
  const double true_acr = ExpectedAcr(noise.groups, 0, 0);
  const double expected =
      ExpectedAcr(noise.groups, noise.false_positive.rate(), noise.false_negative.rate());
  const AcrRange range = ExpectedAcrRange(noise.groups, noise.false_positive, noise.false_negative);
  if (as_json) {
    ordered_json acr = nullptr;
    if (!noise.groups.empty()) {
      acr = {{"groups", noise.groups.size()},    {"by_labels", true_acr},
             {"measured", noise.measured.acr()}, {"expected", expected},
             {"expected_low", range.low},        {"expected_high", range.high}};
    }
    PrintJson({{"summary",
                {{"false_positive", RateJson(noise.false_positive)},
                 {"false_negative", RateJson(noise.false_negative)},
                 {"unscorable", noise.unscorable},
                 {"acr", acr}}}});
    return;
  }
  if (noise.false_positive.trials + noise.false_negative.trials == 0) {
    fmt::print("the file has no labels, so the error rates are unknown\n");
    return;
  }
  PrintRate("false positive rate", noise.false_positive);
  PrintRate("false negative rate", noise.false_negative);
  fmt::print("{:<24} {}\n", "unscorable", noise.unscorable);
  if (noise.groups.empty()) return;
  fmt::print(
      "{:<24} {:.4f} by labels, {:.4f} measured; {:.4f} [{:.4f}, {:.4f}] expected from this noise, "
      "{} "
      "groups\n",
      "ACR", true_acr, noise.measured.acr(), expected, range.low, range.high, noise.groups.size());
}

Status Audit(const AuditFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<VerifierSet> verifiers, flags.verifier.Make());
  VerifierAudit audit(SearchesText(flags.verifier.verifier));
  BUTTRESS_RETURN_IF_ERROR(flags.verifier.ForEachRow(
      [&](const VerifyRow& row) { audit.Add(row, verifiers->For(row.source)); }));
  for (const AuditCheck& check : audit.checks()) {
    if (check.tried > 0) PrintCheck(check, flags);
  }
  PrintNoise(audit.noise(), flags.json);
  return OkStatus();
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
  if (answer.empty()) {
    judge(checks_[kGold], "without an answer", row.answer, row.answer, true);
    return;
  }
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

std::function<Status()> AddAuditVerifier(CLI::App& app) {
  const auto flags = std::make_shared<AuditFlags>();
  flags->verifier.AddTo(app);
  flags->verifier.fields.response_needed = false;
  app.add_option("--examples", flags->examples, "number of failures to show per check, at most 100")
      ->capture_default_str();
  app.add_flag("--json", flags->json, "print one JSON object per check, then a summary object");
  return [flags] { return Audit(*flags); };
}

}  // namespace buttress
