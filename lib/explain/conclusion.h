// What a run suffers from most, in one sentence.
#pragma once

#include <string>

#include "lib/explain/post_mortem.h"

namespace buttress {

struct Conclusion {
  // "failed controls", a cause, "nothing to compare", "label noise", "too easy", "too hard" or
  // "nothing broken"
  std::string name;
  std::string evidence;  // shares with their intervals
};

// Names a verifier that fails on answers of known verdict; else the fault of the sampler, the
// verifier, the token limit or the policy whose share of the groups is the largest by the lower end
// of its interval, over the run or over the recent groups of a source, and of which that is above
// 1 %; else that no group is comparable; else label noise; else prompts that are too easy or too
// hard for more than half of the recent groups; else nothing. Pure.
Conclusion Conclude(const Report& report);

}  // namespace buttress
