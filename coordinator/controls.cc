#include "coordinator/controls.h"

#include <algorithm>
#include <numeric>

#include "lib/base/report/log.h"
#include "lib/base/text/random.h"
#include "lib/experience/codec.h"

namespace buttress {

void ControlTest::Add(bool failed) {
  for (std::size_t i = 0; i < kSought.size(); ++i) {
    const double ratio =
        failed ? kSought[i] / kAllowedFailures : (1 - kSought[i]) / (1 - kAllowedFailures);
    values_[i] = (values_[i] + 1) * ratio;
  }
}

double ControlTest::statistic() const {
  return std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(kSought.size());
}

bool Controls::Wants(std::uint64_t group_id) const {
  const auto prompts = static_cast<std::uint64_t>(options_.prompts);
  const std::uint64_t first = MixSeed(group_id / prompts, prompts) % prompts;
  return (group_id % prompts + prompts - first) % prompts <
         static_cast<std::uint64_t>(options_.per_step);
}

void Controls::Take(const v1::ExchangeRequest& request, Metrics& metrics) {
  for (const v1::ControlVerdict& verdict : request.controls()) {
    const LeaseRef lease = FromProto(verdict.lease());
    if (Wants(lease.group_id) && IsNew(lease)) Count(verdict, metrics);
  }
}

bool Controls::IsNew(const LeaseRef& lease) {
  if (counted_.size() == kRemembered && lease < *counted_.begin()) return false;
  if (!counted_.insert(lease).second) return false;
  if (counted_.size() > kRemembered) counted_.erase(counted_.begin());
  return true;
}

void Controls::Count(const v1::ControlVerdict& verdict, Metrics& metrics) {
  const std::string source = names_.Of(verdict.source());
  v1::ControlTally& tally = tallies_[source];
  tally.set_source(source);
  if (verdict.outcome() == v1::OUTCOME_UNSPECIFIED) return;
  const bool failed =
      verdict.outcome() != (verdict.gold() ? v1::OUTCOME_CORRECT : v1::OUTCOME_WRONG);
  tally.set_controls(tally.controls() + 1);
  if (failed) {
    tally.set_failed(tally.failed() + 1);
    *tally.mutable_newest_failure() = verdict;
  }
  metrics
      .Counter("buttress_coordinator_controls_total",
               "Answers of known verdict that the verifier of a data source judged, by result.",
               {{"source", source}, {"result", failed ? "failed" : "passed"}})
      .Increment();
  if (!tally.alarm()) {
    ControlTest& test = tests_[source];
    test.Add(failed);
    tally.set_statistic(test.statistic());
    tally.set_alarm(test.statistic() >= options_.limit);
    if (tally.alarm()) {
      Log(kWarn, "a verifier fails on answers of known verdict",
          {{"source", source},
           {"failed", tally.failed()},
           {"of", tally.controls()},
           {"newest_response", tally.newest_failure().response()},
           {"judged", OutcomeName(static_cast<Outcome>(tally.newest_failure().outcome()))},
           {"reason", tally.newest_failure().reason()}});
    }
  }
  metrics
      .Gauge("buttress_coordinator_controls_alarm",
             "1 once the controls of a data source have failed more often than chance explains.",
             {{"source", source}})
      .Set(tally.alarm() ? 1 : 0);
}

}  // namespace buttress
