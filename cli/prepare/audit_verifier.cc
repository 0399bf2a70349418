// `buttress audit-verifier FILE`: finds errors of a verifier without a second verifier.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/prepare/verifier_audit.h"
#include "cli/prepare/verifier_flags.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

// The verifiers that search a text for an answer. The others compare the whole response.
constexpr std::string_view kExtracting[] = {"math", "number"};

struct AuditFlags {
  VerifierFlags verifier;
  std::size_t examples = 5;
  bool json = false;
};

void PrintJson(const ordered_json& object) {
  fmt::print("{}\n", object.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

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
                          {"given", failure.verdict.given},
                          {"gold", failure.verdict.gold}});
    } else {
      fmt::print("    {}, {}: {} is judged {}: given {}, gold {}\n", failure.id, failure.what,
                 failure.response, outcome, failure.verdict.given, failure.verdict.gold);
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
  const bool extracts =
      std::ranges::find(kExtracting, flags.verifier.verifier) != std::end(kExtracting);
  VerifierAudit audit(extracts);
  BUTTRESS_RETURN_IF_ERROR(flags.verifier.ForEachRow(
      [&](const VerifyRow& row) { audit.Add(row, verifiers->For(row.source)); }));
  for (const AuditCheck& check : audit.checks()) {
    if (check.tried > 0) PrintCheck(check, flags);
  }
  PrintNoise(audit.noise(), flags.json);
  return OkStatus();
}

}  // namespace

std::function<Status()> AddAuditVerifier(CLI::App& app) {
  const auto flags = std::make_shared<AuditFlags>();
  flags->verifier.AddTo(app);
  app.add_option("--examples", flags->examples, "number of failures to show per check, at most 100")
      ->capture_default_str();
  app.add_flag("--json", flags->json, "print one JSON object per check, then a summary object");
  return [flags] { return Audit(*flags); };
}

}  // namespace buttress
