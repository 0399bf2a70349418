#include "lib/explain/advice.h"

#include <fmt/core.h>

#include <algorithm>

namespace buttress {
namespace {

// Share of all groups below which a cause is not mentioned.
constexpr double kMinShare = 0.01;
// Runs with an ACR-100 above 0.5 tend to end badly (arXiv 2605.21125).
constexpr double kEarlyCollapse = 0.5;

std::string Sizes(const Report& report) {
  std::string text;
  for (const SizeRemedy& size : report.remedies.sizes) {
    text += text.empty() ? fmt::format("{:.2f} at this group size", size.expected_acr)
                         : fmt::format(", {:.2f} at {} times", size.expected_acr, size.times);
  }
  return text;
}

}  // namespace

std::vector<std::string> NextSteps(const Report& report) {
  std::vector<std::string> steps;
  const auto groups = static_cast<double>(std::max<std::int64_t>(1, report.all.groups));
  for (const auto& [source, completions] : report.never_right) {
    steps.push_back(fmt::format(
        "No completion of source '{}' was ever right, of {}: check the verifier first, with "
        "`buttress verify` on answers that are known to be right.",
        source, completions));
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < kCauses; ++i) {
    if (static_cast<double>(report.all.causes[i]) / groups >= kMinShare) order.push_back(i);
  }
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return report.all.causes[i]; });
  for (const std::size_t i : order) {
    const CauseInfo& info = InfoOf(static_cast<Cause>(i));
    steps.push_back(
        fmt::format("{} ({} groups, {:.1f} % of all): {}.", info.name, report.all.causes[i],
                    100 * static_cast<double>(report.all.causes[i]) / groups, info.fix));
  }
  if (report.excess.significant() && report.excess.difference > 0) {
    steps.push_back(fmt::format(
        "Of the groups of prompts seen in the {} steps before, {:.0f} % collapse where their "
        "difficulty predicts {:.0f} to {:.0f} %, {}: something other than difficulty is the cause.",
        report.history_steps, 100 * report.observed_acr, 100 * report.expected.low,
        100 * report.expected.high, DescribeExcess(report.excess)));
  }
  std::int64_t difficulty = 0;
  for (const Cause cause :
       {Cause::kTooEasy, Cause::kTooHard, Cause::kEasySource, Cause::kHardSource, Cause::kUnknown})
    difficulty += report.all.causes[static_cast<std::size_t>(cause)];
  if (static_cast<double>(difficulty) / groups >= kMinShare) {
    steps.push_back("By the spread of success rates over prompts, a larger group gives ACR " +
                    Sizes(report) + ".");
    if (report.remedies.skip.skipped > 0) {
      const SkipRemedy& skip = report.remedies.skip;
      steps.push_back(
          fmt::format("Skipping prompts whose last group was constant would have saved {} of {} "
                      "visits; {:.0f} % of them were constant again.",
                      skip.skipped, skip.visits,
                      100 * static_cast<double>(skip.rightly) / static_cast<double>(skip.skipped)));
    }
  }
  if (report.steps.size() >= 25 && report.acr_100 > kEarlyCollapse) {
    steps.push_back(fmt::format(
        "The first steps have an ACR of {:.2f}; runs that begin above {:.1f} rarely recover "
        "without a change.",
        report.acr_100, kEarlyCollapse));
  }
  if (steps.empty()) steps.push_back("Nothing to fix: almost every group carries a signal.");
  return steps;
}

}  // namespace buttress
