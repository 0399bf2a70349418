#include "lib/checks/prompt_repeats.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace buttress {
namespace {

constexpr std::size_t kFewTrained = 50;
constexpr std::size_t kFewHeldOut = 50;
constexpr std::size_t kRepeatsPerRow = 10;  // one repeat in so many rows is worth a warning

std::size_t CountDistinct(std::vector<std::uint64_t> sorted) {
  const auto repeats = std::ranges::unique(sorted);
  return sorted.size() - repeats.size();
}

// Returns the number of different prompts.
std::size_t CheckRepeats(const HashedPrompts& prompts, const char* effect, Findings& findings) {
  const std::size_t rows = prompts.hashes.size(), distinct = CountDistinct(prompts.hashes);
  if ((rows - distinct) * kRepeatsPerRow >= rows && distinct < rows) {
    findings.Warn(prompts.key,
                  fmt::format("{} of {} rows have the prompt of an earlier row, {} prompts are "
                              "different; {}, so leave the repeats out unless that is intended",
                              rows - distinct, rows, distinct, effect));
  }
  return distinct;
}

std::string Prompts(std::size_t count) {
  return fmt::format("{} different prompt{}", count, count == 1 ? " is" : "s are");
}

}  // namespace

void CheckTrained(const HashedPrompts& trained, Findings& findings) {
  const std::size_t distinct =
      CheckRepeats(trained, "a pass draws each as often as it stands there", findings);
  if (distinct == 0 || distinct >= kFewTrained) return;
  findings.Warn(trained.key, Prompts(distinct) +
                                 " few: the model may learn the answers by heart; use some "
                                 "hundreds or more");
}

void CheckHeldOut(const HashedPrompts& held_out, const std::vector<HashedPrompts>& trained,
                  Findings& findings) {
  const std::size_t rows = held_out.hashes.size();
  for (const HashedPrompts& other : trained) {
    const auto both = std::ranges::count_if(held_out.hashes, [&](std::uint64_t hash) {
      return std::ranges::binary_search(other.hashes, hash);
    });
    if (both == 0) continue;
    findings.Warn(held_out.key,
                  fmt::format("{} of {} held-out prompts are also in {}: its accuracy is not held "
                              "out; leave them out of one of the two",
                              both, rows, other.key));
  }
  const std::size_t distinct =
      CheckRepeats(held_out, "each counts as often as it stands there", findings);
  if (distinct == 0 || distinct >= kFewHeldOut) return;
  findings.Warn(held_out.key,
                fmt::format("{} few: an accuracy of 50 % has an interval of +-{:.0f} points; "
                            "use 100 or more",
                            Prompts(distinct), 98 / std::sqrt(static_cast<double>(distinct))));
}

}  // namespace buttress
