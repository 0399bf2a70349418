// Concludes simulated runs with and without a fault, and prints who was taken for what.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "lib/explain/conclusion.h"
#include "tests/unit/explain/simulated_run.h"

namespace buttress {
namespace {

constexpr int kHealthyRuns = 50;
constexpr int kRunsOfAFault = 10;

bool IsRight(const InjectedInfo& info, const std::string& name) {
  return name == info.conclusion || name == info.other;
}

// Groups without a signal for which a difficulty or chance is not the cause.
std::int64_t GroupsOfFaults(const Report& report) {
  std::int64_t groups = report.all.collapsed;
  for (const Cause cause :
       {Cause::kTooEasy, Cause::kTooHard, Cause::kEasySource, Cause::kHardSource, Cause::kUnknown})
    groups -= report.all.of(cause);
  return groups;
}

TEST(ConfusionTest, FaultsAreNamedAndHealthyRunsHaveNone) {
  int runs = 0, right = 0, false_causes = 0;
  std::int64_t collapsed = 0, of_faults = 0;
  fmt::print("| injected | runs | concluded |\n|---|---|---|\n");
  for (const InjectedInfo& info : kInjected) {
    const bool healthy = info.fault == Injected::kNothing;
    const int repeats = healthy ? kHealthyRuns : kRunsOfAFault;
    std::map<std::string, int> concluded;
    for (int seed = 1; seed <= repeats; ++seed) {
      const Report report = SimulateRun(info.fault, static_cast<std::uint64_t>(seed));
      const std::string name = Conclude(report).name;
      ++concluded[name];
      ++runs;
      right += IsRight(info, name) ? 1 : 0;
      if (!healthy) continue;
      false_causes += IsRight(info, name) ? 0 : 1;
      collapsed += report.all.collapsed;
      of_faults += GroupsOfFaults(report);
    }
    std::string names;
    for (const auto& [name, count] : concluded)
      names += fmt::format("{}{} {}", names.empty() ? "" : ", ", count, name);
    fmt::print("| {} | {} | {} |\n", info.name, repeats, names);
  }
  fmt::print(
      "{} of {} runs right; {} false causes in {} healthy runs, of whose {} groups without a "
      "signal {} have the cause of a fault\n",
      right, runs, false_causes, kHealthyRuns, collapsed, of_faults);
  EXPECT_GE(right, 0.95 * runs);
  EXPECT_LE(false_causes, 1);
  EXPECT_LE(of_faults, collapsed / 200);
}

}  // namespace
}  // namespace buttress
