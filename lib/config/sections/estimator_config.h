// The advantage estimators and their settings. A section of run.algorithm is read by the estimator
// of its name. lib/rl/advantage/advantage.cc has the function, formula and source of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/config/choice.h"
#include "lib/config/limits.h"

namespace buttress {

enum class Estimator : std::uint8_t {
  kGrpo,
  kDrGrpo,
  kRloo,
  kOpo,
  kReinforcePp,
  kReinforcePpBaseline,
  kGpg,
  kPassK,
  kPassAtK,
  kGdpo,
  kNgrpo,
  kRlZvp,
  kWReinforce,
  kReinforceRej,
  kRaft,
  kAGrae,
  kAvspo,
};

template <>
inline constexpr ChoiceRow<Estimator> kChoices<Estimator>[] = {
    {Estimator::kGrpo, "grpo"},
    {Estimator::kDrGrpo, "dr_grpo"},
    {Estimator::kRloo, "rloo"},
    {Estimator::kOpo, "opo"},
    {Estimator::kReinforcePp, "reinforce_pp"},
    {Estimator::kReinforcePpBaseline, "reinforce_pp_baseline"},
    {Estimator::kGpg, "gpg"},
    {Estimator::kPassK, "pass_k"},
    {Estimator::kPassAtK, "pass_at_k"},
    {Estimator::kGdpo, "gdpo"},
    {Estimator::kNgrpo, "ngrpo"},
    {Estimator::kRlZvp, "rl_zvp"},
    {Estimator::kWReinforce, "w_reinforce"},
    {Estimator::kReinforceRej, "reinforce_rej"},
    {Estimator::kRaft, "raft"},
    {Estimator::kAGrae, "a_grae"},
    {Estimator::kAvspo, "avspo"},
};

// What the advantages of a group are divided by.
enum class StdKind : std::uint8_t { kSample, kPopulation, kNone };

template <>
inline constexpr ChoiceRow<StdKind> kChoices<StdKind>[] = {
    {StdKind::kSample, "sample"},
    {StdKind::kPopulation, "population"},
    {StdKind::kNone, "none"},
};

enum class AvspoMode : std::uint8_t { kNoise, kOpposite, kLadder, kPrior };

template <>
inline constexpr ChoiceRow<AvspoMode> kChoices<AvspoMode>[] = {
    {AvspoMode::kNoise, "noise", "Gaussian noise, all groups"},
    {AvspoMode::kOpposite, "opposite", "released code: one virtual sample, constant groups"},
    {AvspoMode::kLadder, "ladder", "the paper's text"},
    {AvspoMode::kPrior, "prior", "the prompt's history, or the batch"},
};

enum class AGraeForm : std::uint8_t { kPaper, kReleased };

template <>
inline constexpr ChoiceRow<AGraeForm> kChoices<AGraeForm>[] = {
    {AGraeForm::kPaper, "paper", "Eq 12 and 13"},
    {AGraeForm::kReleased, "released", "the repository's easy term, 1 / (1 - sqrt p)"},
};

enum class GpgForm : std::uint8_t { kVerl, kOfficial };

template <>
inline constexpr ChoiceRow<GpgForm> kChoices<GpgForm>[] = {
    {GpgForm::kVerl, "verl", "(r - mean) * N / nonzero rewards"},
    {GpgForm::kOfficial, "official", "(r - mean) / share of mixed groups"},
};

// AVSPO's mode `ladder`: the text of the paper.
struct AvspoLadderConfig {
  double alpha = 0.5;
  double anchor = 0.1;
  bool symmetric = false;
  double strength = 1.0;
  double threshold = 0.5;
  double threshold_rate = 0.01;
  double threshold_min = 0.1;
  double threshold_max = 0.9;

  void Visit(auto& v) {
    v("alpha", alpha, "virtual samples of a group: K = max(1, min(G, ceil(G * ACR^alpha)))",
      AtLeast(0));
    v("anchor", anchor, "top of the ladder where no reward of the group is above 0", kAbove0);
    v("symmetric", symmetric,
      "all-wrong k/K and all-correct 1 - k/K instead of the paper's ladder, which leaves "
      "all-correct groups collapsed at K = 1");
    v("strength", strength,
      "weight of the virtual advantages while the gate is open; 0 = the base estimator", kRate);
    v("threshold", threshold, "collapse rate above which the gate opens, at the first step");
    v("threshold_rate", threshold_rate, "how fast the threshold follows the collapse rate (eta)",
      kRate);
    v("threshold_min", threshold_min, "lower bound of the threshold", kRate);
    v("threshold_max", threshold_max, "upper bound of the threshold", kRate);
  }
};

// AVSPO's mode `prior`: virtual samples drawn from the prompt's own history.
struct AvspoPriorConfig {
  double kappa = 1.0;
  double decay = 0.5;
  double confidence_count = 0.0;
  double strength_correct = 1.0;
  double strength_wrong = 1.0;

  void Visit(auto& v) {
    v("kappa", kappa, "virtual samples of a group, a weight", kAbove0);
    v("decay", decay,
      "weight of the prompt's older results at each of its groups: 0.5 = the newest group counts "
      "as "
      "much as all before it, 1 = all count alike",
      kRate);
    v("confidence_count", confidence_count,
      "history of n completions counts n / (n + this), and the mean of the batch, which stands in "
      "for a missing history, as one of the group's size; 0 = the group's size",
      AtLeast(0));
    v("strength_correct", strength_correct,
      "weight of the virtual advantages in all-correct groups, at most 1; 0 = off", kRate);
    v("strength_wrong", strength_wrong,
      "weight of the virtual advantages in all-wrong groups, at most 1; 0 = off", kRate);
  }
};

struct AvspoConfig {
  AvspoMode mode = AvspoMode::kPrior;
  double acr_threshold = 0.3;
  double slope = 5.0;
  double variance_threshold = 0.01;
  double noise_std = 0.1;
  AvspoLadderConfig ladder;
  AvspoPriorConfig prior;

  void Visit(auto& v) {
    v("mode", mode, "how virtual samples are made");
    v("acr_threshold", acr_threshold,
      "noise, opposite, prior: the gate opens above this collapse rate", kRate);
    v("slope", slope,
      "noise, opposite, prior: confidence weight = min(1, slope * (rate - acr_threshold))",
      AtLeast(0));
    v("variance_threshold", variance_threshold,
      "noise: a group counts as collapsed below this sample variance");
    v("noise_std", noise_std, "noise: standard deviation of the virtual rewards' noise",
      AtLeast(0));
    v("ladder", ladder, "mode ladder");
    v("prior", prior, "mode prior");
  }
};

struct AGraeConfig {
  AGraeForm form = AGraeForm::kPaper;
  double alpha = 1.0;

  void Visit(auto& v) {
    v("form", form, "which formula");
    v("alpha", alpha,
      "batch success rate from which positive advantages are no longer suppressed, in (0, 1]",
      kShare);
  }
};

struct GpgConfig {
  GpgForm form = GpgForm::kVerl;

  void Visit(auto& v) { v("form", form, "which formula"); }
};

struct PassAtKConfig {
  std::int64_t k = 4;

  void Visit(auto& v) {
    v("k", k, "completions of which one has to be correct; fewer than run.sampling.group_size",
      AtLeast(1));
  }
};

struct GdpoConfig {
  std::vector<double> weights;

  void Visit(auto& v) {
    v("weights", weights, "weight of each reward component, in their order; empty = 1 each",
      kFinite);
  }
};

struct NgrpoConfig {
  double max_reward = 1.0;

  void Visit(auto& v) {
    v("max_reward", max_reward, "reward of the virtual sample that joins every group", kFinite);
  }
};

struct RlZvpConfig {
  double alpha = 0.1;

  void Visit(auto& v) {
    v("alpha", alpha, "advantage of a constant group's token per nat of its entropy", AtLeast(0));
  }
};

struct WReinforceConfig {
  double positive_weight = 0.1;

  void Visit(auto& v) {
    v("positive_weight", positive_weight, "advantage of a correct completion; a wrong one has -1",
      AtLeast(0));
  }
};

}  // namespace buttress
