#include "lib/explain/tally.h"

#include <fmt/core.h>

#include "lib/explain/rates.h"
#include "lib/rl/eval/pass_at_k.h"

namespace buttress {

void GroupCounts::Add(std::optional<Cause> cause) {
  ++groups;
  if (!cause) return;
  ++collapsed;
  ++causes[static_cast<std::size_t>(*cause)];
}

void Tally::Add(std::int64_t step, std::optional<Cause> cause) {
  GroupCounts::Add(cause);
  if (recent_.empty() || recent_.back().step != step) recent_.push_back({step, {}});
  recent_.back().counts.Add(cause);
  ++recent_groups_;
  while (recent_groups_ - recent_.front().counts.groups >= kRecentGroups) {
    recent_groups_ -= recent_.front().counts.groups;
    recent_.pop_front();
  }
}

GroupCounts Tally::Recent() const {
  GroupCounts sum;
  for (const Step& step : recent_) {
    sum.groups += step.counts.groups;
    sum.collapsed += step.counts.collapsed;
    for (std::size_t i = 0; i < kCauses; ++i) sum.causes[i] += step.counts.causes[i];
  }
  return sum;
}

std::string ShareText(std::int64_t part, std::int64_t whole) {
  const double share = Share(part, whole);
  const ShareInterval interval = WilsonInterval(share, static_cast<double>(whole));
  return fmt::format("{:.0f} % ({:.0f} to {:.0f})", 100 * share, 100 * interval.low,
                     100 * interval.high);
}

}  // namespace buttress
