#include "coordinator/batch_assembler.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/rl/staleness.h"

namespace buttress {
namespace {

// Step `step` starts from the weights of version step - 1.
std::int64_t AgeAt(std::uint64_t step, const BatchCandidate& candidate) {
  return static_cast<std::int64_t>(step) - 1 - static_cast<std::int64_t>(candidate.oldest_step);
}

std::int64_t OldestAllowed(const BatchRules& rules) {
  return MaxAge(rules.prompts, rules.max_age, rules.window);
}

}  // namespace

std::vector<std::uint64_t> TooOld(std::span<const BatchCandidate> line, std::uint64_t step,
                                  const BatchRules& rules) {
  std::vector<std::uint64_t> ids;
  for (const BatchCandidate& candidate : line) {
    if (candidate.ready && AgeAt(step, candidate) > OldestAllowed(rules))
      ids.push_back(candidate.group_id);
  }
  return ids;
}

std::optional<std::vector<std::uint64_t>> AssembleBatch(std::span<const BatchCandidate> line,
                                                        std::uint64_t step,
                                                        const BatchRules& rules) {
  // The oldest group that is left behind is passed by the most groups, so it alone decides whether
  // the window allows more.
  bool waiting = false;
  std::int64_t passed = 0;
  std::vector<std::uint64_t> chosen;
  for (const BatchCandidate& candidate : line) {
    if (static_cast<std::int64_t>(chosen.size()) == rules.prompts) break;
    if (!candidate.ready) {
      if (!waiting) passed = candidate.passed;
      waiting = true;
      continue;
    }
    if (waiting && ++passed > rules.window - 1) return std::nullopt;
    BUTTRESS_CHECK(AgeAt(step, candidate) <= OldestAllowed(rules),
                   "no group of a plan is older than the staleness bound");
    chosen.push_back(candidate.group_id);
  }
  if (static_cast<std::int64_t>(chosen.size()) < rules.prompts) return std::nullopt;
  return chosen;
}

}  // namespace buttress
