#include "lib/measure/breaker.h"

#include <fmt/core.h>

#include <cmath>

namespace buttress {

std::optional<EarlyEnd> Breaker::Observe(const StepMeasurements& step, const std::string& reason) {
  const bool unscorable =
      step.completions > 0 && step.unscorable >= config_.unscorable * step.completions;
  unscorable_steps_ = unscorable ? unscorable_steps_ + 1 : 0;
  if (unscorable && unscorable_steps_ == config_.unscorable_steps) {
    return EarlyEnd{
        false, fmt::format("in {} steps in a row {:.3g} % of the completions or more had no verdict"
                           "{}; fix run.reward.verifier, which `buttress verify` tries alone "
                           "(bound: local.learner.stop_when.unscorable_steps)",
                           unscorable_steps_, 100 * config_.unscorable,
                           reason.empty() ? "" : " (" + reason + ")")};
  }
  const double comparable = step.groups - step.unscorable_groups;
  if (step.groups_informative > 0) {
    uninformative_steps_ = 0;
    comparable_ = all_correct_ = all_wrong_ = 0;
  } else {
    ++uninformative_steps_;
    comparable_ += comparable;
    if (comparable > 0) {
      all_correct_ += std::round(step.acr_all_correct * comparable);
      all_wrong_ += std::round(step.acr_all_wrong * comparable);
    }
    if (uninformative_steps_ == config_.uninformative_steps) return Uninformative();
  }
  if (config_.unchanged_steps > 0 &&
      step.unchanged_versions >= static_cast<double>(config_.unchanged_steps)) {
    return EarlyEnd{
        false, fmt::format("no weight changed in {:.0f} steps in a row; raise run.optim.lr (the "
                           "last rate was {:.3g}), or set run.optim.precision: stochastic, with "
                           "which bfloat16 weights learn from small updates (bound: "
                           "local.learner.stop_when.unchanged_steps)",
                           step.unchanged_versions, step.lr)};
  }
  return std::nullopt;
}

EarlyEnd Breaker::Uninformative() const {
  const std::string steps = fmt::format("{} steps", uninformative_steps_);
  if (comparable_ > 0 && all_correct_ == comparable_) {
    return {true, "nothing left to learn: every group of the last " + steps +
                      " was all correct; add harder prompts to train on"};
  }
  std::string fix =
      "raise run.sampling.group_size or run.sampling.temperature, or take a verifier that tells "
      "more answers apart";
  if (comparable_ == 0) {
    fix = "hardly a completion got a verdict; try run.reward.verifier with `buttress verify`";
  } else if (all_wrong_ == comparable_) {
    fix =
        "all were wrong: take easier prompts, teach the format first with `buttress sft`, or try "
        "the verifier with `buttress audit-verifier`";
  }
  return {false, "no group of " + steps + " in a row had differing raw rewards; " + fix +
                     " (bound: local.learner.stop_when.uninformative_steps)"};
}

}  // namespace buttress
