// The check that a submitted group is what its lease asked for. A worker that samples another
// prompt, in another way, or from weights that this run did not publish, submits what no gradient
// may use.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "buttress/v1/experience.pb.h"
#include "coordinator/loop/coordinator_loop.h"
#include "lib/experience/types.h"

namespace buttress {

// What a group says about its lease.
struct SampledAs {
  std::string source;
  std::string prompt_digest;
  SamplingParams sampling;
  std::vector<PolicyVersion> versions;  // each once, with its digest
};

// REQUIRES: the group has passed CheckGroup.
SampledAs SampledAsOf(const v1::Group& group);

// SHA-256 of the tokens.
std::string PromptDigest(std::span<const std::int32_t> token_ids);

// Returns the sampling of a group. Each draw of a prompt has a seed of its own, which is the same
// for every worker and every lease of it; completion i is sampled with MixSeed(seed, i).
SamplingParams SamplingOf(const RunTerms& terms, const DrawnPrompt& prompt);

// Returns kInvalidArgument with what differs. REQUIRES: the group is leased.
Status CheckAsLeased(Turn& turn, const GroupRow& group, const SampledAs& sampled);

}  // namespace buttress
