// Times ComputeAdvantages on the batch of a folder, for bench/advantages/run.py: prints nanoseconds
// per group, the best of the calls that fit into the time, and writes the advantages for
// comparison. With --formula it times the estimator's function alone, without checks and collapse
// classes. The files hold raw numbers: float64 rewards [K, G], int32 lengths [K, G], float64
// components [K, G, 2].
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>

#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/rl/advantage/advantage.h"
#include "lib/rl/collapse/collapse_metrics.h"

namespace buttress {
namespace {

struct Flags {
  std::string folder;
  std::size_t group_size = 8;
  double seconds = 0.5;
  bool formula = false;
  std::string out;
  std::vector<std::string> overrides;
};

template <class T>
Result<std::vector<T>> ReadNumbers(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  if (bytes.size() % sizeof(T) != 0)
    return DataLoss(path + " is not a list of numbers of " + std::to_string(sizeof(T)) + " bytes");
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

Status Run(const Flags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const AlgorithmConfig options, ParseAlgorithm(flags.overrides));
  BUTTRESS_ASSIGN_OR_RETURN(const auto rewards,
                            ReadNumbers<double>(JoinPath(flags.folder, "rewards")));
  BUTTRESS_ASSIGN_OR_RETURN(const auto lengths,
                            ReadNumbers<std::int32_t>(JoinPath(flags.folder, "lengths")));
  BUTTRESS_ASSIGN_OR_RETURN(const auto components,
                            ReadNumbers<double>(JoinPath(flags.folder, "components")));
  const std::size_t groups = rewards.size() / flags.group_size;
  std::vector<std::int32_t> offsets(groups + 1);
  for (std::size_t k = 0; k <= groups; ++k)
    offsets[k] = static_cast<std::int32_t>(k * flags.group_size);
  std::vector<Outcome> outcomes(rewards.size());
  std::ranges::transform(rewards, outcomes.begin(), [](double reward) {
    return reward == 1 ? Outcome::kCorrect : Outcome::kWrong;
  });
  const std::vector<CollapseClass> classes = ClassifyGroups(rewards, outcomes, offsets);
  const std::vector<PromptHistory> history(groups, PromptHistory{3, 8});

  AdvantageInput input;
  input.rewards = input.raw_rewards = rewards;
  input.outcomes = outcomes;
  if (options.advantage == Estimator::kGdpo) input.components = components;
  input.lengths = lengths;
  input.group_offsets = offsets;
  input.classes = classes;
  input.history = history;
  input.collapse = MakeCollapseSnapshot(rewards, outcomes, offsets, history);
  input.key = AdvantageKey(1, 1);

  BUTTRESS_ASSIGN_OR_RETURN(AdvantageOutput out, ComputeAdvantages(input, options));
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  const auto stop = Clock::now() + std::chrono::duration<double>(flags.seconds);
  do {
    const auto begin = Clock::now();
    if (flags.formula) {
      std::ranges::fill(out.advantages, 0.0);  // as an estimator expects them
      BUTTRESS_RETURN_IF_ERROR(InfoOf(options.advantage).compute(input, options, out));
    } else {
      BUTTRESS_ASSIGN_OR_RETURN(out, ComputeAdvantages(input, options));
    }
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  } while (Clock::now() < stop);
  std::printf("%.6g\n", best * 1e9 / static_cast<double>(groups));
  if (flags.out.empty()) return OkStatus();
  return WriteFileAtomic(flags.out, {reinterpret_cast<const char*>(out.advantages.data()),
                                     out.advantages.size() * sizeof(double)});
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  buttress::Flags flags;
  CLI::App app("Nanoseconds per group of an estimator");
  app.add_option("folder", flags.folder, "folder of rewards, lengths and components")->required();
  app.add_option("--group-size", flags.group_size, "completions of a group");
  app.add_option("--seconds", flags.seconds, "time to measure for");
  app.add_flag("--formula", flags.formula, "the estimator's function alone");
  app.add_option("--out", flags.out, "file for the advantages");
  app.add_option("--set", flags.overrides, "settings of run.algorithm");
  CLI11_PARSE(app, argc, argv);
  const buttress::Status status = buttress::Run(flags);
  if (!status.ok()) std::fprintf(stderr, "bench_advantages: %s\n", status.message().c_str());
  return buttress::ExitCode(status);
}
