// Watches the verifiers of a run by controls: answers whose verdict is known, which workers score
// next to the groups. In memory: a restart of the coordinator begins anew.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/report/metrics.h"
#include "lib/experience/lease.h"
#include "lib/rl/collapse/sources.h"

namespace buttress {

// A sequential test of whether controls fail more often than kAllowedFailures: a Shiryaev-Roberts
// e-process (arXiv 2203.03532, 2309.09111), R_n = (R_{n-1} + 1)(1 + lambda (x - mu)), where x is 1
// for a failed control and mu the allowed rate. While controls fail at mu at most, the factor has a
// mean of 1 at most, so R_n - n is a supermartingale: whoever stops at R >= A has, on average,
// counted A controls at least. lambda = (p - mu) / (mu (1 - mu)) makes the factor the likelihood
// ratio of failures at rate p, which is found soonest. The mean of such processes is one again, and
// serves a dead verifier as well as one that errs now and then.
class ControlTest {
 public:
  static constexpr double kAllowedFailures = 0.01;            // mu
  static constexpr std::array<double, 2> kSought = {.1, .5};  // p

  void Add(bool failed);

  double statistic() const;

 private:
  std::array<double, kSought.size()> values_{};
};

struct ControlOptions {
  std::int64_t per_step = 0;  // leases with a control
  std::int64_t prompts = 1;   // of a step
  double limit = 10000;       // of the statistic, where the alarm is raised
};

// Not thread-safe.
class Controls {
 public:
  explicit Controls(const ControlOptions& options) : options_(options) {}

  // Whether the lease of a group asks for a control: per_step of any `prompts` groups that follow
  // each other, at places that change, so that every source of a mix has its turn.
  bool Wants(std::uint64_t group_id) const;

  // Counts verdicts, those of a lease once. The first that raises the alarm of its source is
  // logged. One of outcome unspecified says that the source has no control.
  void Take(const v1::ExchangeRequest& request, Metrics& metrics);

  // By source, in the order of the names. A source without a control has a tally of 0.
  const std::map<std::string, v1::ControlTally>& tallies() const { return tallies_; }

 private:
  // Controls of leases whose groups are older than the newest kRemembered do not count, because
  // they may be repeated.
  static constexpr std::size_t kRemembered = 4096;

  bool IsNew(const LeaseRef& lease);
  void Count(const v1::ControlVerdict& verdict, Metrics& metrics);

  const ControlOptions options_;
  std::set<LeaseRef> counted_;
  SourceNames names_;
  std::map<std::string, ControlTest> tests_;
  std::map<std::string, v1::ControlTally> tallies_;
};

}  // namespace buttress
