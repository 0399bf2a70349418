#include "tests/simulation/faults.h"

#include <fmt/core.h>

#include <algorithm>

#include "tests/simulation/world.h"

namespace buttress::simulation {

std::string ScheduledFault::Text() const {
  return fmt::format("{:>9.3f} s  {} (target {}, amount {})", static_cast<double>(at_ms) / 1000,
                     NameOf(fault), target, amount);
}

std::vector<ScheduledFault> MakeSchedule(std::uint64_t seed, std::int64_t end_ms) {
  Dice dice(seed, "schedule");
  std::vector<Fault> kinds;
  const std::uint64_t share = 10 + dice.Below(60);  // percent of the kinds
  for (std::size_t i = 0; i < kFaultNames.size(); ++i) {
    if (dice.Chance(share)) kinds.push_back(static_cast<Fault>(i));
  }
  std::vector<ScheduledFault> schedule;
  if (kinds.empty()) return schedule;
  const std::uint64_t count = 1 + dice.Below(30);
  for (std::uint64_t i = 0; i < count; ++i) {
    schedule.push_back({dice.Between(0, end_ms), kinds[dice.Below(kinds.size())], dice.Below(60),
                        dice.Between(1, 1000)});
  }
  std::ranges::stable_sort(schedule, {}, &ScheduledFault::at_ms);
  return schedule;
}

}  // namespace buttress::simulation
