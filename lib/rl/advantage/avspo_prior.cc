#include "lib/rl/advantage/avspo.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/advantage/group_stats.h"

namespace buttress {
namespace {

// n / (n + n0): how far a success rate over n completions is believed.
double Confidence(const PromptHistory& history, double confidence_count) {
  const auto n = static_cast<double>(history.scored);
  return n == 0 ? 0.0 : n / (n + confidence_count);
}

}  // namespace

Status AvspoPrior(const AdvantageInput& input, const AlgorithmConfig& options,
                  AdvantageOutput& out) {
  const AvspoPriorConfig& config = options.avspo.prior;
  BUTTRESS_ASSIGN_OR_RETURN(const StdKind kind, ParseStdKind(options.std));
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, options, out));
  const double rate = input.collapse.acr_ema;
  const double opening = ConfidenceWeight(rate, options.avspo.acr_threshold, options.avspo.slope);
  out.gate = GateReading{rate, options.avspo.acr_threshold, opening > 0};
  if (opening == 0) return OkStatus();
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const bool all_correct = out.collapse[k] == CollapseClass::kAllCorrect;
    if (!all_correct && out.collapse[k] != CollapseClass::kAllWrong) continue;
    const auto size = static_cast<double>(input.group_offsets[k + 1] - input.group_offsets[k]);
    const double confidence_count = config.confidence_count > 0 ? config.confidence_count : size;
    const double weight = (all_correct ? config.strength_correct : config.strength_wrong) *
                          opening * Confidence(input.history[k], confidence_count);
    if (weight == 0) continue;
    const double m = static_cast<double>(input.history[k].correct) /
                     static_cast<double>(input.history[k].scored);
    InjectVirtual(input, k, {.weight = config.kappa, .mean = m, .variance = m * (1 - m)}, kind,
                  options.eps, weight, out);
  }
  return OkStatus();
}

}  // namespace buttress
