#include "lib/rl/collapse/response_probe.h"

#include <set>
#include <vector>

namespace buttress {
namespace {

double Share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void ResponseProbe::Add(const Group& group) {
  std::set<std::vector<std::int32_t>> seen;
  for (const Completion& completion : group.completions) {
    if (completion.outcome == Outcome::kUnscorable) continue;
    ++responses;
    distinct += seen.insert(completion.token_ids).second ? 1 : 0;
    formatted += completion.extracted_answer.empty() ? 0 : 1;
  }
}

double ResponseProbe::distinct_share() const { return Share(distinct, responses); }

double ResponseProbe::format_share() const { return Share(formatted, responses); }

}  // namespace buttress
