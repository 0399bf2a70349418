// Proof, by canary completions, of which weights a server serves.
#pragma once

#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/experience/types.h"
#include "lib/weights/manifest.h"

namespace buttress {

using Canaries = std::vector<Canary>;

// Returns the mean absolute difference of log-probs, in nats, between two sets of greedy
// completions of the same prompts. It compares tokens up to and including the first that differs,
// because later tokens have different contexts. If the weights are the same, the two tokens that
// differ are nearly tied, so their probabilities sum to at most 1; the log of the sum is a lower
// bound of the difference.
double CanaryDifference(const Canaries& a, const Canaries& b);

// The canaries of one policy version.
struct VersionCanaries {
  PolicyVersion version;
  Canaries learner;  // from the manifest
  Canaries server;   // measured on the server
};

struct CanaryProof {
  double difference = 0;   // between server and learner under the new version, in nats
  bool unchanged = false;  // the server still serves the weights of `before`
  bool moved = false;      // the learner has changed enough since `before` to tell
  Status status;           // OK if the server serves the new version
};

// Decides whether a server serves the version of `now`. Its log-probs must be within `bound` nats
// of the learner's, and must differ from those of `before` if the learner's do. A change of the
// learner below a tenth of the bound is ignored, because the precision of the server may hide it:
// `before` is the last version for which `moved` held, and not simply the previous one, so that the
// changes of many small updates add up until they show. `before` may be empty; then `moved` holds.
CanaryProof ProveVersion(const VersionCanaries& now, const VersionCanaries& before, double bound,
                         const std::string& url);

}  // namespace buttress
