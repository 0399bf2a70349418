#include "lib/rl/loss/loss_table.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "lib/rl/loss/aggregation.h"

namespace buttress {
namespace {

constexpr std::array kPolicyLosses = {
    PolicyLossEntry{
        PolicyLoss::kPpo, "ppo",
        "max(-A rho, -A clip(rho, 1 - el, 1 + eh)); A < 0: at most -A dual_clip",
        "-A rho; 0 if A > 0 and rho > 1 + eh, A < 0 and rho < 1 - el, or A < 0 and rho > dual_clip",
        "arXiv 1707.06347", ReadsLogprobs::kOld, "clip_low, clip_high, dual_clip", false, false,
        /*has_dual_clip=*/true},
    PolicyLossEntry{PolicyLoss::kDecoupledPpo, "decoupled_ppo",
                    "w * ppo, w = exp(old - sampler) by correction.mode, old the learner's own",
                    "w times ppo's", "arXiv 2505.24298", ReadsLogprobs::kOldAndSampler,
                    "clip_low, clip_high, dual_clip, correction", false, false,
                    /*has_dual_clip=*/true},
    PolicyLossEntry{
        PolicyLoss::kGspo, "gspo",
        "max(-B s, -B clip(s, 1 - el, 1 + eh)), s = exp(mean d), B = mean A over the completion",
        "-B s where s is not clipped", "arXiv 2507.18071", ReadsLogprobs::kOld,
        "clip_low, clip_high",
        /*reads_completions=*/true},
    PolicyLossEntry{PolicyLoss::kGspoToken, "gspo_token",
                    "max(-A s, -A clip(s, 1 - el, 1 + eh)), s = sg[exp(mean d)] exp(lp - sg[lp])",
                    "-A s where s is not clipped", "arXiv 2507.18071", ReadsLogprobs::kOld,
                    "clip_low, clip_high",
                    /*reads_completions=*/true},
    PolicyLossEntry{PolicyLoss::kCispo, "cispo", "-sg[clip(rho, 1 - el, 1 + eh)] A lp",
                    "-clip(rho, 1 - el, 1 + eh) A: never 0", "arXiv 2506.13585",
                    ReadsLogprobs::kOld, "clip_low, clip_high"},
    PolicyLossEntry{PolicyLoss::kGmpo, "gmpo",
                    "-B exp(mean c), c = d, at most eh if A > 0, at least -el if A < 0; B = mean A",
                    "-B exp(mean c) where d is not clipped", "arXiv 2507.20673",
                    ReadsLogprobs::kOld, "clip_low, clip_high: of d, the paper has 0.4",
                    /*reads_completions=*/true},
    PolicyLossEntry{PolicyLoss::kSapo, "sapo", "-A (4 / tau) sigmoid(tau (rho - 1))",
                    "-A rho 4 S (1 - S), S the sigmoid", "arXiv 2511.20347", ReadsLogprobs::kOld,
                    "sapo"},
    PolicyLossEntry{PolicyLoss::kGpg, "gpg", "-A lp", "-A", "arXiv 2504.02546",
                    ReadsLogprobs::kNone, ""},
    PolicyLossEntry{PolicyLoss::kDppoTv, "dppo_tv",
                    "-A sg[min(rho, cap)] lp, 0 if A > 0 and p - q > eh, or A <= 0 and q - p > el",
                    "-A min(rho, cap), or 0", "arXiv 2602.04879", ReadsLogprobs::kOld,
                    "clip_low, clip_high: of p - q = exp(lp) - exp(old); dppo"},
    PolicyLossEntry{PolicyLoss::kDppoKl, "dppo_kl",
                    "-A sg[min(rho, cap)] lp, 0 if K > eh and A > 0 and p > q, or K > el and A <= "
                    "0 and p < q; K = KL of (q, 1 - q) to (p, 1 - p)",
                    "-A min(rho, cap), or 0", "arXiv 2602.04879", ReadsLogprobs::kOld,
                    "clip_low, clip_high: of K; dppo"},
    PolicyLossEntry{PolicyLoss::kClipCov, "clip_cov",
                    "ppo, 0 for a random share of the tokens with a covariance within bounds",
                    "ppo's, or 0", "arXiv 2505.22617", ReadsLogprobs::kOldAndSampler,
                    "clip_low, clip_high, clip_cov", false,
                    /*reads_covariance=*/true},
    PolicyLossEntry{PolicyLoss::kKlCov, "kl_cov",
                    "-A rho; + coef |d| for the share of the tokens with the highest covariance",
                    "-A rho; + coef sign(d)", "arXiv 2505.22617", ReadsLogprobs::kOldAndSampler,
                    "kl_cov", false, /*reads_covariance=*/true},
};

constexpr LossChoice kCorrectionModes[] = {
    {"none", "1", ""},
    {"is", "w", "unbiased, unbounded (AReaL, arXiv 2505.24298, Eq 5, without a filter)"},
    {"tis", "min(w, cap)", "truncated importance sampling; verl's default cap 2"},
    {"mis", "w if w <= cap, else 0", "masked importance sampling; AReaL's filter with cap 5"},
    {"icepop", "w if floor <= w <= cap, else 0", "IcePop; 0.5 and 5"},
};
constexpr LossChoice kCorrectionLevels[] = {
    {"token", "w_t = exp(old_t - sampler_t)", ""},
    {"sequence", "w = product of w_t over the completion",
     "long completions leave the bounds easily"},
    {"geometric", "w = (product of w_t)^(1/T)", ""},
};
constexpr LossChoice kKlEstimators[] = {
    {"k1", "x", "as a loss its expected gradient is 0"},
    {"k2", "x^2 / 2", "gradient of KL(policy || start model)"},
    {"k3", "exp(-x) + x - 1, x within +-20, at most 10",
     "expected gradient is that of KL(start model || policy)"},
    {"k3+", "k3, with k2's gradient", "value of k3, gradient of KL(policy || start model)"},
};
constexpr LossChoice kOldPolicies[] = {
    {"sampler", "recorded log-probs", "one ratio for staleness, engine and updates together"},
    {"learner", "the learner's own as the step begins",
     "ratio 1 at the first update; the gap to the sampler is correction's"},
};

std::string Link(std::string_view paper) {
  const std::string number(paper.substr(paper.find(' ') + 1));
  std::string link = "[";
  return link.append(number).append("](https://arxiv.org/abs/").append(number).append(")");
}

// In a cell of a table: a bar would end it.
std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

std::string Code(std::string_view text) {
  std::string code = "`";
  return text.empty() ? "" : code.append(Cell(text)).append("`");
}

std::string_view Reads(ReadsLogprobs reads) {
  switch (reads) {
    case ReadsLogprobs::kNone:
      return "";
    case ReadsLogprobs::kOld:
      return "old";
    case ReadsLogprobs::kOldAndSampler:
      return "old, sampler";
  }
  return "";
}

void AppendRow(std::initializer_list<std::string> cells, std::string& text) {
  for (const std::string& cell : cells) text.append("| ").append(cell).append(" ");
  text += "|\n";
}

void AppendChoices(std::string_view key, std::string_view value,
                   std::span<const LossChoice> choices, std::string& text) {
  text += "\n";
  AppendRow({Code(key), std::string(value), ""}, text);
  AppendRow({"---", "---", "---"}, text);
  for (const LossChoice& choice : choices)
    AppendRow({Code(choice.name), Code(choice.formula), Cell(choice.note)}, text);
}

}  // namespace

std::span<const PolicyLossEntry> PolicyLosses() { return kPolicyLosses; }

Result<const PolicyLossEntry*> FindPolicyLoss(std::string_view name) {
  std::string choices;
  for (const PolicyLossEntry& entry : kPolicyLosses) {
    if (entry.name == name) return &entry;
    choices += (choices.empty() ? "" : ", ") + std::string(entry.name);
  }
  return InvalidArgument("algorithm.loss = '" + std::string(name) +
                         "' is not a loss; choose one of: " + choices);
}

std::span<const LossChoice> CorrectionModes() { return kCorrectionModes; }

std::span<const LossChoice> CorrectionLevels() { return kCorrectionLevels; }

std::span<const LossChoice> KlEstimators() { return kKlEstimators; }

std::span<const LossChoice> OldPolicies() { return kOldPolicies; }

bool ZeroAdvantageHasGradient(const AlgorithmConfig& algorithm) {
  return algorithm.kl_coef > 0 || algorithm.entropy_coef > 0 ||
         algorithm.adaptive_entropy.target > 0 || algorithm.loss == "kl_cov";
}

std::string LossTables() {
  std::string text;
  AppendRow({"loss", "of a token", "gradient by `lp`", "paper", "reads log-probs", "settings"},
            text);
  AppendRow({"---", "---", "---", "---", "---", "---"}, text);
  for (const PolicyLossEntry& entry : kPolicyLosses) {
    AppendRow({Code(entry.name), Code(entry.formula), Code(entry.gradient), Link(entry.paper),
               std::string(Reads(entry.reads)), std::string(entry.settings)},
              text);
  }
  AppendChoices("old_policy", "the ratio divides by", kOldPolicies, text);
  AppendChoices("correction.mode", "weight of a token", kCorrectionModes, text);
  AppendChoices("correction.level", "w", kCorrectionLevels, text);
  AppendChoices("kl_estimator", "x = lp - ref", kKlEstimators, text);
  AppendChoices("aggregation",
                "l: losses of all N tokens, T_i of completion i, B completions, K groups",
                Aggregations(), text);
  return text;
}

std::string LossList() {
  std::string text;
  for (const PolicyLossEntry& entry : kPolicyLosses) {
    std::string name(entry.name);
    name.resize(std::max<std::size_t>(name.size() + 1, 15), ' ');
    text += name + std::string(entry.paper) + "  " + std::string(entry.formula) + "\n";
  }
  return text;
}

}  // namespace buttress
