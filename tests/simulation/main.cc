// buttress-sim: runs whole clusters in one process, each through the faults of its seed.
//
//   buttress-sim --seeds 100000 --threads 8     looks for a seed that fails
//   buttress-sim --first-seed 17 --seeds 1 --story
//   buttress-sim --planted --seeds 1000         shows that every planted fault is found
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/simulation/faults.h"
#include "tests/simulation/plants.h"
#include "tests/simulation/seams.h"
#include "tests/simulation/sweep.h"
#include "tests/support/fakes/simulated_disk.h"
#include "tests/support/temp_dir.h"

namespace buttress::simulation {
namespace {

// In so many seeds, everything happens.
constexpr std::uint64_t kSeedsOfAll = 500;
constexpr std::array<std::string_view, 7> kMustHappen = {
    "a damaged ledger was refused",        "a backup was restored",
    "a group was dropped by the operator", "groups were archived",
    "an audit found a damaged archive",    "learner's disk: torn",
    "a damaged checkpoint was skipped"};

struct Flags {
  SweepOptions sweep;
  bool story = false;
  bool planted = false;
  std::string plant = "nothing";
  std::vector<std::size_t> only;
};

void PrintCoverage(const SweepResult& result) {
  for (const auto& [name, count] : result.coverage) fmt::print("{:>12}  {}\n", count, name);
}

// Returns whether every fault has happened, and every seam is one.
bool HasAll(const SweepResult& result) {
  std::vector<std::string> names(kFaultNames.begin(), kFaultNames.end());
  names.insert(names.end(), kSeamNames.begin(), kSeamNames.end());
  names.insert(names.end(), kMustHappen.begin(), kMustHappen.end());
  for (const auto& name : kDiskFaultNames) names.push_back(fmt::format("disk: {}", name));
  bool all = true;
  for (const std::string& name : names) {
    const auto found = result.coverage.find(name);
    if (found != result.coverage.end() && found->second > 0) continue;
    fmt::print("never happened: {}\n", name);
    all = false;
  }
  return all;
}

std::string Listed(const std::set<std::size_t>& indices) {
  std::string list;
  for (const std::size_t index : indices) list += (list.empty() ? "" : ",") + std::to_string(index);
  return list;
}

int Explain(std::uint64_t seed, const std::string& failure, const std::string& plant) {
  fmt::print("seed {} fails: {}\n\nlooking for its shortest schedule ...\n", seed, failure);
  const std::set<std::size_t> kept = Shrink(seed);
  const std::vector<ScheduledFault> schedule = MakeSchedule(seed, kFaultMs);
  fmt::print("{} of {} faults are left:\n", kept.size(), schedule.size());
  for (const std::size_t index : kept) fmt::print("{}\n", schedule[index].Text());
  fmt::print("\nits story:\n");
  const std::string still = Replay(seed, kept, true);
  const std::string planted = plant == "nothing" ? "" : " --plant " + plant;
  fmt::print(
      "\n{}\nreplay: buttress-sim --first-seed {} --seeds 1 --story{}\n"
      "   the shortest: buttress-sim --first-seed {} --seeds 1 --story{} --only {}\n",
      still, seed, planted, seed, planted, kept.empty() ? "none" : Listed(kept));
  return 1;
}

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int RunSweep(const Flags& flags) {
  const auto begin = std::chrono::steady_clock::now();
  const SweepResult result = Sweep(flags.sweep);
  if (result.failed) return Explain(*result.failed, result.failure, flags.plant);
  PrintCoverage(result);
  fmt::print("{} seeds in {:.1f} s: {} events, {:.1f} hours of simulated time, nothing failed\n",
             result.seeds, SecondsSince(begin), result.events,
             static_cast<double>(result.simulated_ms) / 3600000);
  return flags.sweep.seeds < kSeedsOfAll || HasAll(result) ? 0 : 1;
}

// Every planted fault must be found.
int RunPlanted(const Flags& flags) {
  int missed = 0;
  for (std::size_t i = 1; i < kPlantNames.size(); ++i) {
    SetPlant(static_cast<Plant>(i));
    const SweepResult result = Sweep(flags.sweep);
    missed += result.failed ? 0 : 1;
    fmt::print("{:<28} {}\n", kPlantNames[i],
               result.failed ? fmt::format("seed {}: {}", *result.failed, result.failure)
                             : fmt::format("NOT FOUND in {} seeds", result.seeds));
    std::fflush(stdout);
  }
  fmt::print("{} of {} planted faults are found\n", kPlantNames.size() - 1 - missed,
             kPlantNames.size() - 1);
  return missed == 0 ? 0 : 1;
}

int RunStory(const Flags& flags) {
  std::optional<std::set<std::size_t>> only;
  if (!flags.only.empty()) only.emplace(flags.only.begin(), flags.only.end());
  const std::string failure = Replay(flags.sweep.first_seed, only, true);
  if (failure.empty()) return 0;
  fmt::print("seed {} fails: {}\n", flags.sweep.first_seed, failure);
  return 1;
}

int Main(int argc, char** argv) {
  // The processes of a sweep that has found its seed are killed, and leave their folders here.
  const TempDir folder;
  ::setenv("TMPDIR", folder.path().c_str(), 1);
  Flags flags;
  flags.sweep.processes = std::max(1U, std::thread::hardware_concurrency());
  CLI::App app("Runs simulated clusters through the faults of their seeds.", "buttress-sim");
  app.add_option("--seeds", flags.sweep.seeds, "how many seeds");
  app.add_option("--first-seed", flags.sweep.first_seed, "the first of them");
  app.add_option("--threads", flags.sweep.processes, "processes side by side")
      ->check(CLI::PositiveNumber);
  app.add_flag("--story", flags.story, "tells what happens in the first seed, and runs no other");
  app.add_option("--only", flags.only, "with --story: the faults that happen, by their indices")
      ->delimiter(',');
  app.add_option("--plant", flags.plant, "a fault that is planted")
      ->check(CLI::IsMember(std::vector<std::string>(kPlantNames.begin(), kPlantNames.end())));
  app.add_flag("--planted", flags.planted, "plants every fault, each of which must be found");
  CLI11_PARSE(app, argc, argv);
  SetPlant(*PlantOf(flags.plant));
  if (flags.story) return RunStory(flags);
  return flags.planted ? RunPlanted(flags) : RunSweep(flags);
}

}  // namespace
}  // namespace buttress::simulation

int main(int argc, char** argv) { return buttress::simulation::Main(argc, argv); }
