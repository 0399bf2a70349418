#include <algorithm>
#include <utility>

#include "lib/base/os/clock.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

class WeightedSum : public Verifier {
 public:
  explicit WeightedSum(std::vector<WeightedVerifier> parts) : parts_(std::move(parts)) {}

  Verdict Verify(const VerifyRequest& request) const override {
    return std::move(VerifyBatch({&request, 1}).front());
  }

  std::size_t batch() const override {
    std::size_t most = 1;
    for (const WeightedVerifier& part : parts_) most = std::max(most, part.verifier->batch());
    return most;
  }

  bool bounds_time() const override {
    return std::ranges::any_of(
        parts_, [](const WeightedVerifier& part) { return part.verifier->bounds_time(); });
  }

  std::vector<Verdict> VerifyBatch(std::span<const VerifyRequest> requests) const override {
    std::vector<Verdict> sums(requests.size());
    for (const WeightedVerifier& part : parts_) {
      const std::size_t step = part.verifier->batch();
      for (std::size_t begin = 0; begin < requests.size(); begin += step) {
        const auto some = requests.subspan(begin, std::min(step, requests.size() - begin));
        const double started = MonotonicSeconds();
        std::vector<Verdict> verdicts = part.verifier->VerifyBatch(some);
        const double seconds = (MonotonicSeconds() - started) / static_cast<double>(some.size());
        for (std::size_t i = 0; i < some.size(); ++i)
          Add(part.term, std::move(verdicts[i]), seconds, sums[begin + i]);
      }
    }
    return sums;
  }

 private:
  static void Add(const SumTerm& term, Verdict verdict, double seconds, Verdict& sum) {
    VerdictPart part{
        term.name, term.weight, verdict.outcome, verdict.raw_reward, verdict.unscorable_reason,
        seconds};
    part.not_applicable = verdict.not_applicable;
    // The first part that applies decides.
    const bool first = sum.parts.empty() || sum.not_applicable;
    const bool fails = verdict.outcome == Outcome::kUnscorable && !verdict.not_applicable;
    std::vector<VerdictPart> parts = std::move(sum.parts);
    if (first) sum = std::move(verdict);
    if (fails && (first || sum.outcome != Outcome::kUnscorable)) {
      sum.outcome = Outcome::kUnscorable;
      sum.raw_reward = 0;
      sum.unscorable_reason = term.name + ": " + part.unscorable_reason;
    }
    sum.parts = std::move(parts);
    sum.parts.push_back(std::move(part));
  }

  const std::vector<WeightedVerifier> parts_;
};

}  // namespace

std::unique_ptr<Verifier> MakeWeightedSum(std::vector<WeightedVerifier> parts) {
  return std::make_unique<WeightedSum>(std::move(parts));
}

}  // namespace buttress
