#include "lib/checks/setting_pairs.h"

namespace buttress {

void CheckSettingPairs(const RunSettings& run, Findings& findings) {
  const AlgorithmConfig& algorithm = run.algorithm;
  if (algorithm.advantage == Estimator::kAGrae && algorithm.clip_high > algorithm.clip_low) {
    findings.Warn("run.algorithm.clip_high",
                  "above clip_low lets right answers rise further in a step, and advantage: a_grae "
                  "holds them back; set clip_high to clip_low, or another estimator");
  }
  if (run.optim.lr == 0 && algorithm.kl_coef > 0) {
    findings.Warn("run.algorithm.kl_coef",
                  "costs a reference model and a pass of it, and with run.optim.lr: 0 the policy "
                  "stays where it is; set kl_coef: 0, or a rate");
  }
}

}  // namespace buttress
