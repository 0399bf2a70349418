#include "coordinator/schedule/batch_assembler.h"

#include <algorithm>

#include "lib/base/report/check.h"
#include "lib/rl/staleness.h"

namespace buttress {
namespace {

// Step `step` starts from the weights of version step - 1.
std::int64_t AgeAt(std::uint64_t step, std::uint64_t oldest_step) {
  return static_cast<std::int64_t>(step) - 1 - static_cast<std::int64_t>(oldest_step);
}

}  // namespace

bool IsTooOld(std::uint64_t oldest_step, std::uint64_t step, const BatchRules& rules) {
  return AgeAt(step, oldest_step) > MaxAge(rules.prompts, rules.max_age, rules.window);
}

std::vector<std::uint64_t> TooOld(std::span<const BatchCandidate> line, std::uint64_t step,
                                  const BatchRules& rules) {
  std::vector<std::uint64_t> ids;
  for (const BatchCandidate& candidate : line) {
    if (candidate.ready && IsTooOld(candidate.oldest_step, step, rules))
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
    BUTTRESS_CHECK(!IsTooOld(candidate.oldest_step, step, rules),
                   "no group of a plan is older than the staleness bound");
    chosen.push_back(candidate.group_id);
  }
  if (static_cast<std::int64_t>(chosen.size()) < rules.prompts) return std::nullopt;
  return chosen;
}

}  // namespace buttress
