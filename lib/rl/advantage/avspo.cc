#include "lib/rl/advantage/avspo.h"

#include <algorithm>
#include <array>
#include <string>

#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/group_stats.h"

namespace buttress {
namespace {

constexpr std::array kModes = {
    AvspoMode{"noise", AvspoNoise, "the brief's pseudo-code; in no version of the paper",
              "every group, while the share of groups with a variance below variance_threshold is "
              "above acr_threshold",
              "the normalised noise: mean 0, sample variance 1, whatever the reward",
              "0: the noise does not depend on the completions; a random step of full length"},
    AvspoMode{"opposite", AvspoOpposite, "released code of arXiv 2605.21125, made per group",
              "all-correct and all-wrong groups, while the step's ACR is above acr_threshold",
              "+-w / sqrt(G + 1): above 0 if all-correct, below 0 if all-wrong",
              "w [p^(G-1) + (1-p)^(G-1)] / sqrt(G + 1) * grad p: ascent; w comes from the step's "
              "own ACR, which biases it"},
    AvspoMode{"ladder", AvspoLadder, "text of arXiv 2605.21125",
              "constant groups, while the step's ACR is above a threshold that follows it",
              "above 0 if a reward of the group is above 0 and K > 1, below 0 if none is; "
              "symmetric: equal sizes",
              "[a+(K) p^(G-1) + a-(K) (1-p)^(G-1)] * grad p, a+- the advantages' sizes; K comes "
              "from the step's own ACR, which biases it"},
    AvspoMode{
        "prior", AvspoPrior, "derived here",
        "all-correct and all-wrong groups, while the ACR of earlier steps is above acr_threshold",
        "population: +w sqrt(kappa (1-m) / (G + kappa m)) or -w sqrt(kappa m / (G + kappa (1-m))), "
        "m the prompt's success rate so far",
        "w [a+(m) p^(G-1) + a-(m) (1-p)^(G-1)] * grad p: ascent, unbiased, since m and w come from "
        "earlier steps"},
};

}  // namespace

std::span<const AvspoMode> AvspoModes() { return kModes; }

double ConfidenceWeight(double acr, double acr_threshold, double slope) {
  if (!(acr > acr_threshold)) return 0.0;
  return std::min(1.0, slope * (acr - acr_threshold));
}

BUTTRESS_KERNEL void InjectVirtual(const AdvantageInput& input, std::size_t k,
                                   const VirtualRewards& virtual_rewards, StdKind kind, double eps,
                                   double weight, AdvantageOutput& out) {
  const auto rewards = GroupRows(input.rewards, input.group_offsets, k);
  const auto advantages = GroupRows(std::span<double>(out.advantages), input.group_offsets, k);
  const Affine among = AmongVirtual(rewards, virtual_rewards, kind, eps);
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    advantages[i] =
        (1.0 - weight) * advantages[i] + weight * ((rewards[i] - among.mean) * among.factor);
  }
  out.decisions[k] = {true, weight, virtual_rewards.weight};
}

Status Avspo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  std::string choices;
  for (const AvspoMode& mode : kModes) {
    if (mode.name == options.avspo.mode) return mode.compute(input, options, out);
    choices += (choices.empty() ? "" : ", ") + std::string(mode.name);
  }
  return InvalidArgument("algorithm.avspo.mode = '" + options.avspo.mode +
                         "' is not known; choose one of: " + choices);
}

}  // namespace buttress
