#include "rollout_worker/vllm/canary_proof.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace buttress {
namespace {

constexpr double kVisible = 0.1;  // share of the bound
constexpr double kMoved = 0.1;    // share of the learner's move

std::string Nats(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g nats", value);
  return text;
}

}  // namespace

double CanaryDifference(const Canaries& a, const Canaries& b) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t c = 0; c < std::min(a.size(), b.size()); ++c) {
    const std::size_t tokens = std::min(a[c].token_ids.size(), b[c].token_ids.size());
    bool parted = false;
    for (std::size_t t = 0; t < tokens && !parted; ++t) {
      const double p = a[c].logprobs[t];
      const double q = b[c].logprobs[t];
      parted = a[c].token_ids[t] != b[c].token_ids[t];
      const double tie = parted ? std::log(std::exp(p) + std::exp(q)) : 0;
      sum += std::max(std::abs(p - q), tie);
      ++count;
    }
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

CanaryProof ProveVersion(const VersionCanaries& now, const VersionCanaries& before, double bound,
                         const std::string& url) {
  CanaryProof proof;
  proof.difference = CanaryDifference(now.server, now.learner);
  const bool comparable = !before.learner.empty() && !before.server.empty();
  const double learner_moved = comparable ? CanaryDifference(now.learner, before.learner) : 0;
  proof.unchanged = learner_moved > kVisible * bound &&
                    CanaryDifference(now.server, before.server) < kMoved * learner_moved;
  if (proof.unchanged) {
    proof.status = FailedPrecondition(
        url + " took the weights of policy " + ToString(now.version) +
        ", but its log-probs are unchanged: it still serves policy " + ToString(before.version) +
        " (the learner's moved by " + Nats(learner_moved) +
        "); start it with --enforce-eager if it has compiled the old ones in");
  } else if (!(proof.difference <= bound)) {
    proof.status = FailedPrecondition(
        url + " took the weights of policy " + ToString(now.version) +
        ", but its log-probs differ from the learner's by " + Nats(proof.difference) +
        " on average; expected at most " + Nats(bound) +
        ". See that it serves the same model, or raise local.worker.vllm.canary_nats");
  }
  return proof;
}

}  // namespace buttress
