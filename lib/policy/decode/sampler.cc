#include "lib/policy/decode/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/policy/cpu/layer_kernels.h"

namespace buttress {
namespace {

// The number of tokens that top_p sorts first. It sorts four times as many when they do not
// suffice.
constexpr std::int64_t kFirstSorted = 64;

float ScaleOf(double temperature) { return static_cast<float>(1.0 / temperature); }

// Every log-prob is this one.
float LogProb(double weight, double total) { return static_cast<float>(std::log(weight / total)); }

}  // namespace

TokenScore ScoreToken(const float* logits, std::int64_t V, double temperature, std::int64_t token,
                      std::vector<float>& weights) {
  const float scale = ScaleOf(temperature);
  weights.resize(static_cast<std::size_t>(V));
  std::vector<double> sums(static_cast<std::size_t>((V + kSumRun - 1) / kSumRun));
  const float top = ExpRow(logits, scale, weights.data(), sums.data(), V);
  const double total = std::accumulate(sums.begin(), sums.end(), 0.0);
  double moment = 0;
  for (std::int64_t i = 0; i < V; ++i) {
    const float weight = weights[static_cast<std::size_t>(i)];
    if (weight > 0) moment += static_cast<double>(weight * ((logits[i] - top) * scale));
  }
  const auto drawn = static_cast<double>(weights[static_cast<std::size_t>(token)]);
  const auto shift = static_cast<double>((logits[token] - top) * scale);
  const double log_total = std::log(total);
  return {drawn > 0 ? LogProb(drawn, total) : static_cast<float>(shift - log_total),
          static_cast<float>(static_cast<double>(top * scale) + log_total),
          static_cast<float>(log_total - moment / total)};
}

SampledToken Sampler::Sample(const float* logits, std::int64_t V, const SamplingParams& params,
                             double uniform, std::span<const std::int32_t> masked) {
  if (!masked.empty()) {
    logits_.assign(logits, logits + V);
    for (const std::int32_t id : masked)
      logits_[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
    logits = logits_.data();
  }
  weights_.resize(static_cast<std::size_t>(V));
  sums_.resize(static_cast<std::size_t>((V + kSumRun - 1) / kSumRun));
  const bool greedy = params.temperature == 0;
  const float scale = greedy ? 1.0f : ScaleOf(params.temperature);
  ExpRow(logits, scale, weights_.data(), sums_.data(), V);
  const double total = std::accumulate(sums_.begin(), sums_.end(), 0.0);
  if (!std::isfinite(total) || total <= 0) return {};
  kept_ = V;
  mass_ = total;
  if (greedy) return SelectBest(total);
  const bool keeps_all = (params.top_k <= 0 || params.top_k >= V) && params.top_p >= 1.0;
  return keeps_all ? DrawAny(total, uniform) : DrawKept(params, total, uniform);
}

bool Sampler::IsBefore(std::int32_t a, std::int32_t b) const {
  const float weight_a = weights_[static_cast<std::size_t>(a)];
  const float weight_b = weights_[static_cast<std::size_t>(b)];
  return weight_a > weight_b || (weight_a == weight_b && a < b);
}

std::vector<TokenLogprob> Sampler::Top(std::int32_t most) {
  const std::int64_t count = std::min<std::int64_t>(most, kept_);
  if (kept_ == std::ssize(weights_)) {
    order_.resize(weights_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::partial_sort(order_.begin(), order_.begin() + count, order_.end(),
                      [this](std::int32_t a, std::int32_t b) { return IsBefore(a, b); });
  }
  std::vector<TokenLogprob> top;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t token = order_[static_cast<std::size_t>(i)];
    const auto weight = static_cast<double>(weights_[static_cast<std::size_t>(token)]);
    if (weight > 0) top.push_back({token, LogProb(weight, mass_)});
  }
  return top;
}

SampledToken Sampler::SelectBest(double total) const {
  const auto best = std::max_element(weights_.begin(), weights_.end());
  return {static_cast<std::int32_t>(best - weights_.begin()),
          LogProb(static_cast<double>(*best), total)};
}

// Finds the run of weights that contains the quantile, then the token in it. If rounding carries
// the quantile past the end, selects the last token with a positive weight.
SampledToken Sampler::DrawAny(double total, double uniform) const {
  double left = uniform * total;
  std::size_t run = 0;
  while (run + 1 < sums_.size() && left >= sums_[run]) left -= sums_[run++];
  const std::size_t end = std::min(weights_.size(), (run + 1) * static_cast<std::size_t>(kSumRun));
  std::size_t drawn = weights_.size();
  for (std::size_t token = run * static_cast<std::size_t>(kSumRun); token < end; ++token) {
    const double weight = static_cast<double>(weights_[token]);
    if (weight <= 0) continue;
    drawn = token;
    if (left < weight) break;
    left -= weight;
  }
  if (drawn == weights_.size()) {
    --drawn;
    while (weights_[drawn] <= 0) --drawn;
  }
  return {static_cast<std::int32_t>(drawn), LogProb(static_cast<double>(weights_[drawn]), total)};
}

SampledToken Sampler::DrawKept(const SamplingParams& params, double total, double uniform) {
  const auto V = static_cast<std::int64_t>(weights_.size());
  const auto weight = [this](std::int32_t id) {
    return static_cast<double>(weights_[static_cast<std::size_t>(id)]);
  };
  const auto before = [this](std::int32_t a, std::int32_t b) { return IsBefore(a, b); };
  order_.resize(static_cast<std::size_t>(V));
  std::iota(order_.begin(), order_.end(), 0);
  const std::int64_t limit = params.top_k > 0 ? std::min<std::int64_t>(params.top_k, V) : V;

  std::int64_t sorted = 0;
  const auto sort_to = [&](std::int64_t count) {
    const auto end = order_.begin() + count;
    if (count < V) std::nth_element(order_.begin() + sorted, end, order_.end(), before);
    std::sort(order_.begin() + sorted, end, before);
    sorted = count;
  };
  if (limit < V) {
    sort_to(limit);
    total = 0;
    for (std::int64_t i = 0; i < limit; ++i) total += weight(order_[static_cast<std::size_t>(i)]);
  }
  // top_p applies to the mass that top_k keeps.
  std::int64_t kept = 0;
  double mass = 0;
  const double wanted = params.top_p * total;
  while (kept < limit && (kept == 0 || params.top_p >= 1.0 || mass < wanted)) {
    if (kept == sorted) sort_to(std::min(limit, std::max(kFirstSorted, 4 * sorted)));
    mass += weight(order_[static_cast<std::size_t>(kept++)]);
  }
  kept_ = kept;
  mass_ = mass;
  double left = uniform * mass;
  std::int32_t token = order_.front();
  for (std::int64_t i = 0; i < kept; ++i) {
    const std::int32_t id = order_[static_cast<std::size_t>(i)];
    if (weight(id) <= 0) break;
    token = id;
    if (left < weight(id)) break;
    left -= weight(id);
  }
  return {token, LogProb(weight(token), mass)};
}

}  // namespace buttress
