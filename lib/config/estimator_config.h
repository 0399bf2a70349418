// Settings of single advantage estimators: the sections of run.algorithm, each read by the
// estimator of its name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace buttress {

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

  template <class V>
  void Visit(V& v) {
    v("alpha", alpha, "virtual samples of a group: K = max(1, min(G, ceil(G * ACR^alpha)))");
    v("anchor", anchor, "top of the ladder where no reward of the group is above 0");
    v("symmetric", symmetric,
      "all-wrong k/K and all-correct 1 - k/K instead of the paper's ladder, which leaves "
      "all-correct groups collapsed at K = 1");
    v("strength", strength,
      "weight of the virtual advantages while the gate is open; 0 = the base estimator");
    v("threshold", threshold, "collapse rate above which the gate opens, at the first step");
    v("threshold_rate", threshold_rate, "how fast the threshold follows the collapse rate (eta)");
    v("threshold_min", threshold_min, "lower bound of the threshold");
    v("threshold_max", threshold_max, "upper bound of the threshold");
  }
};

// AVSPO's mode `prior`: virtual samples drawn from the prompt's own history.
struct AvspoPriorConfig {
  double kappa = 1.0;
  double confidence_count = 0.0;
  double strength_correct = 1.0;
  double strength_wrong = 1.0;

  template <class V>
  void Visit(V& v) {
    v("kappa", kappa, "virtual samples of a group, a weight");
    v("confidence_count", confidence_count,
      "history of n completions counts n / (n + this); 0 = the group's size");
    v("strength_correct", strength_correct,
      "weight of the virtual advantages in all-correct groups, at most 1; 0 = off");
    v("strength_wrong", strength_wrong,
      "weight of the virtual advantages in all-wrong groups, at most 1; 0 = off");
  }
};

struct AvspoConfig {
  std::string mode = "opposite";
  double acr_threshold = 0.3;
  double slope = 5.0;
  double variance_threshold = 0.01;
  double noise_std = 0.1;
  AvspoLadderConfig ladder;
  AvspoPriorConfig prior;

  template <class V>
  void Visit(V& v) {
    v("mode", mode,
      "noise (the brief's Gaussian noise, all groups) | opposite (released code: one virtual "
      "sample, constant groups) | ladder (the "
      "paper's text) | prior (the prompt's history)");
    v("acr_threshold", acr_threshold,
      "noise, opposite, prior: the gate opens above this collapse rate");
    v("slope", slope,
      "noise, opposite, prior: confidence weight = min(1, slope * (rate - acr_threshold))");
    v("variance_threshold", variance_threshold,
      "noise: a group counts as collapsed below this sample variance");
    v("noise_std", noise_std, "noise: standard deviation of the virtual rewards' noise");
    v("ladder", ladder, "mode ladder");
    v("prior", prior, "mode prior");
  }
};

struct AgraeConfig {
  std::string form = "paper";
  double alpha = 1.0;

  template <class V>
  void Visit(V& v) {
    v("form", form,
      "paper (Eq 12 and 13) | released (the repository's easy term, 1 / (1 - sqrt p))");
    v("alpha", alpha,
      "batch success rate from which positive advantages are no longer suppressed, in (0, 1]");
  }
};

struct GpgConfig {
  std::string form = "verl";

  template <class V>
  void Visit(V& v) {
    v("form", form,
      "verl ((r - mean) * N / nonzero rewards) | official ((r - mean) / share of mixed groups)");
  }
};

struct GdpoConfig {
  std::vector<double> weights;

  template <class V>
  void Visit(V& v) {
    v("weights", weights, "weight of each reward component, in their order; empty = 1 each");
  }
};

struct NgrpoConfig {
  double max_reward = 1.0;

  template <class V>
  void Visit(V& v) {
    v("max_reward", max_reward, "reward of the virtual sample that joins every group");
  }
};

struct RlZvpConfig {
  double alpha = 0.1;

  template <class V>
  void Visit(V& v) {
    v("alpha", alpha, "advantage of a constant group's token per nat of its entropy");
  }
};

struct WReinforceConfig {
  double positive_weight = 0.1;

  template <class V>
  void Visit(V& v) {
    v("positive_weight", positive_weight, "advantage of a correct completion; a wrong one has -1");
  }
};

}  // namespace buttress
