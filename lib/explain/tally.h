// Counts of groups and of the causes of those without a signal, over a run and of late.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "lib/explain/cause.h"

namespace buttress {

using CauseCounts = std::array<std::int64_t, kCauses>;

struct GroupCounts {
  std::int64_t groups = 0;
  std::int64_t collapsed = 0;  // without a signal
  CauseCounts causes{};

  std::int64_t of(Cause cause) const { return causes[static_cast<std::size_t>(cause)]; }

  void Add(std::optional<Cause> cause);
};

// The groups of a run, of a source or of a sampler. Its counts are of the whole run; Recent() are
// those of the last whole steps with kRecentGroups groups, so that what ended or began says so.
// Not thread-safe.
class Tally : public GroupCounts {
 public:
  static constexpr std::int64_t kRecentGroups = 256;

  // REQUIRES: `step` is not below that of the call before.
  void Add(std::int64_t step, std::optional<Cause> cause);

  GroupCounts Recent() const;

 private:
  struct Step {
    std::int64_t step = 0;
    GroupCounts counts;
  };

  std::deque<Step> recent_;  // newest last
  std::int64_t recent_groups_ = 0;
};

// "25 % (14 to 40)": the share and its 95 % interval.
std::string ShareText(std::int64_t part, std::int64_t whole);

}  // namespace buttress
