#include "lib/explain/conclusion.h"

#include <fmt/core.h>

#include <optional>

#include "lib/explain/rates.h"
#include "lib/rl/eval/pass_at_k.h"

namespace buttress {
namespace {

constexpr Cause kFaults[] = {
    Cause::kFloatNoise,
    Cause::kUnscorable,
    Cause::kStaleWeights,
    Cause::kDuplicateSamples,
    Cause::kTruncated,
    Cause::kModeCollapsed,
    Cause::kVerifierConstant,
    Cause::kNeverRight,
    Cause::kAgainstHistory,
    Cause::kEpisodeLimit,
    Cause::kFailingTools,
    Cause::kUnreadableCalls,
    Cause::kLoops,
};

// Rarer faults cost less than what it takes to find them.
constexpr double kLeastFault = 0.01;
// A reader of prose errs on up to 5 % of verdicts in one direction, not in both.
constexpr double kLeastNoise = 0.05;
// From more than half of the groups on, most of the work is lost to difficulty.
constexpr double kMostlyDifficult = 0.5;

double LowerEnd(std::int64_t part, std::int64_t whole) {
  return WilsonInterval(Share(part, whole), static_cast<double>(whole)).low;
}

struct Fault {
  Cause cause = Cause::kUnknown;
  double low = 0;
  std::string evidence;
};

// "Never right" is past once a completion of the source was right.
void Consider(const GroupCounts& counts, bool never_right, const std::string& of, Fault& worst) {
  for (const Cause cause : kFaults) {
    if (cause == Cause::kNeverRight && !never_right) continue;
    const double low = LowerEnd(counts.of(cause), counts.groups);
    if (low <= worst.low) continue;
    worst = {cause, low, fmt::format("{} of {}", ShareText(counts.of(cause), counts.groups), of)};
  }
}

std::optional<Conclusion> WorstFault(const Report& report) {
  Fault worst;
  Consider(report.all, !report.never_right.empty(), fmt::format("all {} groups", report.all.groups),
           worst);
  for (const auto& [name, tally] : report.sources) {
    const GroupCounts recent = tally.Recent();
    Consider(recent, report.never_right.contains(name),
             fmt::format("the last {} groups of source '{}'", recent.groups, name), worst);
  }
  if (worst.low < kLeastFault) return std::nullopt;
  return Conclusion{std::string(InfoOf(worst.cause).name), worst.evidence};
}

std::optional<Conclusion> LabelNoise(const TruthCounts& truth) {
  if (LowerEnd(truth.right_unstated, truth.right) < kLeastNoise ||
      LowerEnd(truth.wrong_stated, truth.wrong) < kLeastNoise)
    return std::nullopt;
  return Conclusion{
      "label noise",
      fmt::format("in mixed groups {} of what is scored right does not state the ground truth, and "
                  "{} of what is scored wrong states it",
                  ShareText(truth.right_unstated, truth.right),
                  ShareText(truth.wrong_stated, truth.wrong))};
}

std::optional<Conclusion> Difficult(const GroupCounts& recent, const char* name, Cause prompt,
                                    Cause source) {
  const std::int64_t groups = recent.of(prompt) + recent.of(source);
  if (LowerEnd(groups, recent.groups) <= kMostlyDifficult) return std::nullopt;
  return Conclusion{name, fmt::format("{} of the last {} groups", ShareText(groups, recent.groups),
                                      recent.groups)};
}

}  // namespace

Conclusion Conclude(const Report& report) {
  if (report.misjudged_sources > 0) {
    return {"failed controls",
            fmt::format("the verifier of {} data source{} fails on answers of known verdict, so "
                        "that what follows is of its verdicts, not of the policy",
                        report.misjudged_sources, report.misjudged_sources == 1 ? "" : "s")};
  }
  if (auto fault = WorstFault(report)) return *fault;
  if (report.counts.constant() + report.counts.mixed == 0) {
    return {"nothing to compare",
            fmt::format("none of {} groups has two completions with a verdict; completions of one "
                        "prompt and step are a group, or those of one uid (verl) or group (plain "
                        "rows)",
                        report.counts.groups)};
  }
  if (auto noise = LabelNoise(report.truth)) return *noise;
  const GroupCounts recent = report.all.Recent();
  if (auto easy = Difficult(recent, "too easy", Cause::kTooEasy, Cause::kEasySource)) return *easy;
  if (auto hard = Difficult(recent, "too hard", Cause::kTooHard, Cause::kHardSource)) return *hard;
  return {"nothing broken", fmt::format("{} of the last {} groups have no signal",
                                        ShareText(recent.collapsed, recent.groups), recent.groups)};
}

}  // namespace buttress
