#include "rollout_worker/vllm/canary_proof.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace buttress {
namespace {

constexpr double kVisible = 0.1;  // as a share of the bound
constexpr double kMoved = 0.1;    // as a share of the learner's change

}  // namespace

double CanaryDifference(const Canaries& a, const Canaries& b) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t c = 0; c < std::min(a.size(), b.size()); ++c) {
    const std::size_t tokens = std::min(a[c].token_ids.size(), b[c].token_ids.size());
    bool differ = false;
    for (std::size_t t = 0; t < tokens && !differ; ++t) {
      const double p = a[c].logprobs[t];
      const double q = b[c].logprobs[t];
      differ = a[c].token_ids[t] != b[c].token_ids[t];
      const double tie = differ ? std::log(std::exp(p) + std::exp(q)) : 0;
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
  proof.moved = !comparable || learner_moved > kVisible * bound;
  proof.unchanged = comparable && proof.moved &&
                    CanaryDifference(now.server, before.server) < kMoved * learner_moved;
  if (proof.unchanged) {
    proof.status = FailedPrecondition(fmt::format(
        "{} accepted the weights of policy {}, but its log-probs are unchanged: it still "
        "serves policy {} (the learner's log-probs changed by {:.3g} nats); start it with "
        "--enforce-eager if it compiled the old weights in",
        url, ToString(now.version), ToString(before.version), learner_moved));
  } else if (!(proof.difference <= bound)) {
    proof.status = FailedPrecondition(fmt::format(
        "{} accepted the weights of policy {}, but its log-probs differ from the learner's by "
        "{:.3g} nats on average; expected at most {:.3g} nats. Check that it serves the same "
        "model, or raise local.worker.vllm.canary_nats",
        url, ToString(now.version), proof.difference, bound));
  }
  return proof;
}

}  // namespace buttress
