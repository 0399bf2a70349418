// What canary completions say about the weights that a server serves.
#pragma once

#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/experience/types.h"
#include "lib/weights/manifest.h"

namespace buttress {

using Canaries = std::vector<Canary>;

// Mean absolute difference of the log-probs of two sets of greedy completions of the same prompts,
// in nats, up to where tokens part: what follows has other contexts. Where they part, the two
// tokens are a near tie if the weights are the same, so their probabilities add up to 1 at most;
// the log of that sum is a lower bound of the difference.
double CanaryDifference(const Canaries& a, const Canaries& b);

// Canaries of one version, and whose they are.
struct VersionCanaries {
  PolicyVersion version;
  Canaries learner;  // from its manifest
  Canaries server;   // what the server showed under it
};

struct CanaryProof {
  double difference = 0;   // of server and learner under the new version
  bool unchanged = false;  // the server still serves the weights of the version before
  Status status;           // OK: proven
};

// Whether a server serves the version of `now`: within `bound` nats of the learner, and moved from
// `before` where the learner has. A move of the learner below a tenth of the bound is not held
// against a server that shows none: its precision may hide it. `before` may hold nothing.
CanaryProof ProveVersion(const VersionCanaries& now, const VersionCanaries& before, double bound,
                         const std::string& url);

}  // namespace buttress
