// Micro-batches for tests of losses, and a second implementation of the losses from the papers'
// formulas, in double, without torch. Factors without a gradient are evaluated at `frozen`, so that
// finite differences by `lp` are the gradient.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "lib/base/text/random.h"
#include "lib/rl/loss/loss.h"

namespace buttress {

// M tokens of C completions.
struct LossCase {
  std::vector<double> lp, old, sampler, advantages, weights;
  std::vector<std::int64_t> lengths;
  std::vector<std::uint8_t> marked;
};

inline at::Tensor FloatVector(const std::vector<double>& values) {
  return torch::tensor(values, at::kFloat);
}

inline std::vector<double> DoublesOf(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kDouble).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

inline LossInput InputOf(const LossCase& c) {
  LossInput input;
  input.logprobs_M = FloatVector(c.lp).requires_grad_(true);
  input.old_logprobs_M = FloatVector(c.old);
  input.sampler_logprobs_M = FloatVector(c.sampler);
  input.advantages_M = FloatVector(c.advantages);
  input.weights_M = FloatVector(c.weights);
  input.lengths_C = torch::tensor(c.lengths);
  if (!c.marked.empty()) input.marked_M = torch::tensor(c.marked).to(at::kBool);
  return input;
}

// Completions of 1 to 6 tokens, advantages and weights equal within each; log-ratios of every size.
inline LossCase RandomCase(RandomStream& random, std::int64_t completions) {
  LossCase c;
  for (std::int64_t i = 0; i < completions; ++i) {
    const std::int64_t length = 1 + static_cast<std::int64_t>(random.Below(6));
    const double advantage = random.Below(8) == 0 ? 0 : random.Normal();
    const double weight = (0.2 + random.Uniform()) / static_cast<double>(completions * length);
    c.lengths.push_back(length);
    for (std::int64_t t = 0; t < length; ++t) {
      c.lp.push_back(-0.02 - 3 * random.Uniform());
      c.old.push_back(std::min(-0.01, c.lp.back() - 0.5 * random.Normal()));
      c.sampler.push_back(std::min(-0.01, c.old.back() - 0.3 * random.Normal()));
      c.advantages.push_back(advantage);
      c.weights.push_back(weight);
      c.marked.push_back(random.Below(4) == 0 ? 1 : 0);
    }
  }
  return c;
}

// Weighted sum of policy losses, without corrections.
inline double ReferenceLoss(const LossCase& c, const AlgorithmConfig& o,
                            const std::vector<double>& lp, const std::vector<double>& frozen) {
  const auto clip = [&](double ratio) {
    return std::clamp(ratio, 1 - o.clip_low, 1 + o.clip_high);
  };
  const auto surrogate = [&](double ratio, double a) {
    return std::max(-a * ratio, -a * clip(ratio));
  };
  double sum = 0;
  std::size_t begin = 0;
  for (const std::int64_t length : c.lengths) {
    const std::size_t end = begin + static_cast<std::size_t>(length);
    double d_sum = 0, frozen_sum = 0, c_sum = 0, a_sum = 0;
    for (std::size_t t = begin; t < end; ++t) {
      const double d = lp[t] - c.old[t];
      const double a = c.advantages[t];
      d_sum += d;
      frozen_sum += frozen[t] - c.old[t];
      c_sum += a > 0 ? std::min(d, o.clip_high) : a < 0 ? std::max(d, -o.clip_low) : d;
      a_sum += a;
    }
    const auto n = static_cast<double>(length);
    for (std::size_t t = begin; t < end; ++t) {
      const double a = c.advantages[t];
      const double rho = std::exp(lp[t] - c.old[t]);
      const double frozen_rho = std::exp(frozen[t] - c.old[t]);
      const double p = std::exp(frozen[t]);
      const double q = std::exp(c.old[t]);
      const bool marked = !c.marked.empty() && c.marked[t] != 0;
      double loss = 0;
      switch (o.loss) {
        case PolicyLoss::kPpo:
        case PolicyLoss::kDecoupledPpo:
          loss = surrogate(rho, a);
          if (a < 0 && o.dual_clip > 0) loss = std::min(loss, -a * o.dual_clip);
          break;
        case PolicyLoss::kGspo:
          loss = surrogate(std::exp(d_sum / n), a_sum / n);
          break;
        case PolicyLoss::kGspoToken:
          loss = surrogate(std::exp(frozen_sum / n) * std::exp(lp[t] - frozen[t]), a);
          break;
        case PolicyLoss::kCispo:
          loss = -clip(frozen_rho) * a * lp[t];
          break;
        case PolicyLoss::kGmpo:
          loss = -a_sum / n * std::exp(c_sum / n);
          break;
        case PolicyLoss::kSapo: {
          const double tau = a > 0 ? o.sapo.tau_positive : o.sapo.tau_negative;
          loss = -a * 4 / tau / (1 + std::exp(-tau * (rho - 1)));
          break;
        }
        case PolicyLoss::kGpg:
          loss = -a * lp[t];
          break;
        case PolicyLoss::kDppoTv: {
          const bool keep = a > 0 ? p - q <= o.clip_high : p - q >= -o.clip_low;
          loss = keep ? -a * std::min(frozen_rho, o.dppo.cap) * lp[t] : 0;
          break;
        }
        case PolicyLoss::kDppoKl: {
          const double kl = q * std::log(q / p) + (1 - q) * std::log((1 - q) / (1 - p));
          const bool keep = a > 0 ? kl <= o.clip_high || p <= q : kl <= o.clip_low || p >= q;
          loss = keep ? -a * std::min(frozen_rho, o.dppo.cap) * lp[t] : 0;
          break;
        }
        case PolicyLoss::kClipCov:
          loss = marked ? 0 : surrogate(rho, a);
          break;
        case PolicyLoss::kKlCov:
          loss = -a * rho + (marked ? o.kl_cov.coef * std::abs(lp[t] - c.old[t]) : 0);
          break;
      }
      sum += c.weights[t] * loss;
    }
    begin = end;
  }
  return sum;
}

}  // namespace buttress
