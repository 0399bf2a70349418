#include "lib/rl/loss/loss_table.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace buttress {
namespace {

constexpr std::array kPolicyLossInfos = {
    PolicyLossInfo{
        PolicyLoss::kPpo, "max(-A rho, -A clip(rho, 1 - el, 1 + eh)); A < 0: at most -A dual_clip",
        "-A rho; 0 if A > 0 and rho > 1 + eh, A < 0 and rho < 1 - el, or A < 0 and rho > dual_clip",
        "arXiv 1707.06347", "old", "clip_low, clip_high, dual_clip"},
    PolicyLossInfo{PolicyLoss::kDecoupledPpo,
                   "w * ppo, w = exp(old - sampler) by correction.mode, old the learner's own",
                   "w times ppo's", "arXiv 2505.24298", "old, sampler",
                   "clip_low, clip_high, dual_clip, correction"},
    PolicyLossInfo{
        PolicyLoss::kGspo,
        "max(-B s, -B clip(s, 1 - el, 1 + eh)), s = exp(mean d), B = mean A over the completion",
        "-B s where s is not clipped", "arXiv 2507.18071", "old", "clip_low, clip_high"},
    PolicyLossInfo{PolicyLoss::kGspoToken,
                   "max(-A s, -A clip(s, 1 - el, 1 + eh)), s = sg[exp(mean d)] exp(lp - sg[lp])",
                   "-A s where s is not clipped", "arXiv 2507.18071", "old", "clip_low, clip_high"},
    PolicyLossInfo{PolicyLoss::kCispo, "-sg[clip(rho, 1 - el, 1 + eh)] A lp",
                   "-clip(rho, 1 - el, 1 + eh) A: never 0", "arXiv 2506.13585", "old",
                   "clip_low, clip_high"},
    PolicyLossInfo{PolicyLoss::kGmpo,
                   "-B exp(mean c), c = d, at most eh if A > 0, at least -el if A < 0; B = mean A",
                   "-B exp(mean c) where d is not clipped", "arXiv 2507.20673", "old",
                   "clip_low, clip_high: of d, the paper has 0.4"},
    PolicyLossInfo{PolicyLoss::kSapo, "-A (4 / tau) sigmoid(tau (rho - 1))",
                   "-A rho 4 S (1 - S), S the sigmoid", "arXiv 2511.20347", "old", "sapo"},
    PolicyLossInfo{PolicyLoss::kGpg, "-A lp", "-A", "arXiv 2504.02546", "", ""},
    PolicyLossInfo{PolicyLoss::kDppoTv,
                   "-A sg[min(rho, cap)] lp, 0 if A > 0 and p - q > eh, or A <= 0 and q - p > el",
                   "-A min(rho, cap), or 0", "arXiv 2602.04879", "old",
                   "clip_low, clip_high: of p - q = exp(lp) - exp(old); dppo"},
    PolicyLossInfo{PolicyLoss::kDppoKl,
                   "-A sg[min(rho, cap)] lp, 0 if K > eh and A > 0 and p > q, or K > el and A <= "
                   "0 and p < q; K = KL of (q, 1 - q) to (p, 1 - p)",
                   "-A min(rho, cap), or 0", "arXiv 2602.04879", "old",
                   "clip_low, clip_high: of K; dppo"},
    PolicyLossInfo{PolicyLoss::kClipCov,
                   "ppo, 0 for a random share of the tokens with a covariance within bounds",
                   "ppo's, or 0", "arXiv 2505.22617", "old, sampler",
                   "clip_low, clip_high, clip_cov"},
    PolicyLossInfo{PolicyLoss::kKlCov,
                   "-A rho; + coef |d| for the share of the tokens with the highest covariance",
                   "-A rho; + coef sign(d)", "arXiv 2505.22617", "old, sampler", "kl_cov"},
};

static_assert(std::ranges::equal(kPolicyLossInfos, kChoices<PolicyLoss>, {}, &PolicyLossInfo::loss,
                                 &ChoiceRow<PolicyLoss>::value));

// Formula of one value of a setting.
template <Choice E>
struct ChoiceFormula {
  E value;
  std::string_view formula;
  std::string_view note;
};

constexpr ChoiceFormula<CorrectionMode> kCorrectionModes[] = {
    {CorrectionMode::kNone, "1", ""},
    {CorrectionMode::kIs, "w",
     "unbiased, unbounded (AReaL, arXiv 2505.24298, Eq 5, without a filter)"},
    {CorrectionMode::kTis, "min(w, cap)", "truncated importance sampling; verl's default cap 2"},
    {CorrectionMode::kMis, "w if w <= cap, else 0",
     "masked importance sampling; AReaL's filter with cap 5"},
    {CorrectionMode::kIcePop, "w if floor <= w <= cap, else 0", "IcePop; 0.5 and 5"},
};
constexpr ChoiceFormula<CorrectionLevel> kCorrectionLevels[] = {
    {CorrectionLevel::kToken, "w_t = exp(old_t - sampler_t)", ""},
    {CorrectionLevel::kSequence, "w = product of w_t over the completion",
     "long completions leave the bounds easily"},
    {CorrectionLevel::kGeometric, "w = (product of w_t)^(1/T)", ""},
};
constexpr ChoiceFormula<KlEstimator> kKlEstimators[] = {
    {KlEstimator::kK1, "x", "as a loss its expected gradient is 0"},
    {KlEstimator::kK2, "x^2 / 2", "gradient of KL(policy || start model)"},
    {KlEstimator::kK3, "exp(-x) + x - 1, x within +-20, at most 10",
     "expected gradient is that of KL(start model || policy)"},
    {KlEstimator::kK3Plus, "k3, with k2's gradient",
     "value of k3, gradient of KL(policy || start model)"},
};
constexpr ChoiceFormula<OldPolicy> kOldPolicies[] = {
    {OldPolicy::kSampler, "recorded log-probs",
     "one ratio for staleness, engine and updates together"},
    {OldPolicy::kLearner, "the learner's own as the step begins",
     "ratio 1 at the first update; the correction weighs the gap to the sampler"},
};
constexpr ChoiceFormula<Aggregation> kAggregations[] = {
    {Aggregation::kTokenMean, "sum l / N",
     "DAPO as verl has it: a token is a token, over the whole step"},
    {Aggregation::kTokenSum, "sum l", ""},
    {Aggregation::kGroupTokenMean, "1/K sum over groups of (sum l / tokens of the group)",
     "DAPO, Eq 8"},
    {Aggregation::kSeqMeanTokenMean, "1/B sum over completions of (sum l / T_i)",
     "GRPO, Eq 3; also GSPO, GMPO, SAPO"},
    {Aggregation::kSeqMeanTokenSum, "1/B sum l", "LUSPO with loss: gspo"},
    {Aggregation::kSeqMeanTokenSumNorm, "1/(B length_norm) sum l",
     "Dr. GRPO: a constant, not the longest of the batch"},
};

std::string Link(std::string_view paper) {
  const std::string number(paper.substr(paper.find(' ') + 1));
  std::string link = "[";
  return link.append(number).append("](https://arxiv.org/abs/").append(number).append(")");
}

// Text for a cell of a Markdown table, which a bar would end.
std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

std::string Code(std::string_view text) {
  std::string code = "`";
  return text.empty() ? "" : code.append(Cell(text)).append("`");
}

void AppendRow(std::initializer_list<std::string> cells, std::string& text) {
  for (const std::string& cell : cells) text.append("| ").append(cell).append(" ");
  text += "|\n";
}

template <Choice E, std::size_t N>
void AppendChoices(std::string_view key, std::string_view value,
                   const ChoiceFormula<E> (&formulas)[N], std::string& text) {
  static_assert(N == std::size(kChoices<E>));
  text += "\n";
  AppendRow({Code(key), std::string(value), ""}, text);
  AppendRow({"---", "---", "---"}, text);
  for (const ChoiceFormula<E>& row : formulas)
    AppendRow({Code(ChoiceName(row.value)), Code(row.formula), Cell(row.note)}, text);
}

}  // namespace

std::span<const PolicyLossInfo> PolicyLosses() { return kPolicyLossInfos; }

bool ZeroAdvantageHasGradient(const AlgorithmConfig& algorithm) {
  return algorithm.kl_coef > 0 || algorithm.entropy_coef > 0 ||
         algorithm.adaptive_entropy.target > 0 || algorithm.loss == PolicyLoss::kKlCov;
}

std::string LossTables() {
  std::string text;
  AppendRow({"loss", "of a token", "gradient by `lp`", "paper", "reads log-probs", "settings"},
            text);
  AppendRow({"---", "---", "---", "---", "---", "---"}, text);
  for (const PolicyLossInfo& info : kPolicyLossInfos) {
    AppendRow({Code(info.name()), Code(info.formula), Code(info.gradient), Link(info.paper),
               std::string(info.reads), std::string(info.settings)},
              text);
  }
  AppendChoices("old_policy", "the ratio divides by", kOldPolicies, text);
  AppendChoices("correction.mode", "weight of a token", kCorrectionModes, text);
  AppendChoices("correction.level", "w", kCorrectionLevels, text);
  AppendChoices("kl_estimator", "x = lp - ref", kKlEstimators, text);
  AppendChoices("aggregation",
                "l: losses of all N tokens, T_i of completion i, B completions, K groups",
                kAggregations, text);
  return text;
}

std::string LossList() {
  std::string text;
  for (const PolicyLossInfo& info : kPolicyLossInfos) {
    std::string name(info.name());
    name.resize(std::max<std::size_t>(name.size() + 1, 15), ' ');
    text += name + std::string(info.paper) + "  " + std::string(info.formula) + "\n";
  }
  return text;
}

}  // namespace buttress
