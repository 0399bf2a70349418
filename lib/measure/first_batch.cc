#include "lib/measure/first_batch.h"

#include <fmt/core.h>

#include <cmath>

namespace buttress {
namespace {

// float32 log-probs of two engines agree to 1e-4 nats, those of bfloat16 to about 1e-2.
constexpr double kKlOfEqualWeights = 0.02;

}  // namespace

std::vector<std::string> FirstBatchNotices(const StepMeasurements& step) {
  std::vector<std::string> notices;
  const double scored = step.completions - step.unscorable;
  if (step.completions > 0 && scored == 0) {
    notices.push_back("nothing of the first batch could be scored; see the log of the worker");
  } else if (step.unscorable > 0) {
    notices.push_back(fmt::format("{:.3g} % of the first batch could not be scored",
                                  100 * step.unscorable / step.completions));
  }
  if (scored > 0 && step.groups_informative == 0) {
    notices.push_back(fmt::format(
        "all raw rewards of the first batch are equal within their groups (mean reward {:.3g}); "
        "such groups teach nothing",
        step.reward_mean));
  }
  if (step.completions > 0 && step.truncated_share == 1) {
    notices.push_back(
        "every completion of the first batch was cut at run.sampling.max_tokens; raise it, or "
        "check that the model knows its stop token");
  }
  if (step.format_share == 0)
    notices.push_back("the verifier found no answer in any completion of the first batch");
  if (step.over_long_prompts > 0) {
    notices.push_back(fmt::format(
        "{:.0f} prompts were passed over before the first batch was full, because they are longer "
        "than run.data.max_prompt_tokens (run.data.over_long: drop)",
        step.over_long_prompts));
  }
  if (step.token_age_p99 == 0 && step.kl > kKlOfEqualWeights) {
    notices.push_back(fmt::format(
        "log-probs of worker and learner differ for the same weights: KL {:.2g} nats per token; "
        "check that both load the same model and dtype",
        step.kl));
  }
  return notices;
}

}  // namespace buttress
