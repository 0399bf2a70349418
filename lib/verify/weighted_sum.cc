#include "lib/verify/weighted_sum.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "lib/base/clock.h"
#include "lib/verify/extract.h"

namespace buttress {
namespace {

Result<SumTerm> ParseTerm(std::string_view text, bool negative) {
  SumTerm term;
  const std::size_t star = text.find('*');
  if (star != std::string_view::npos) {
    const std::string_view number = Trim(text.substr(0, star));
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), term.weight);
    if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(term.weight) || term.weight == 0)
      return InvalidArgument("'" + std::string(number) + "' is no weight; expected a number that is not 0, as in math + 0.2 * format");
    text.remove_prefix(star + 1);
  }
  if (negative) term.weight = -term.weight;
  term.name = Trim(text);
  if (term.name.empty() || term.name.find_first_of(" \t\n") != std::string::npos)
    return InvalidArgument("'" + term.name + "' names no verifier; expected as in math + 0.2 * format");
  return term;
}

// Where the next " + " or " - " stands.
std::size_t FindSign(std::string_view text) { return std::min(text.find(" + "), text.find(" - ")); }

class WeightedSum : public Verifier {
 public:
  explicit WeightedSum(std::vector<WeightedVerifier> parts) : parts_(std::move(parts)) {}

  Verdict Verify(const VerifyRequest& request) const override { return std::move(VerifyBatch({&request, 1}).front()); }

  std::size_t batch() const override {
    std::size_t most = 1;
    for (const WeightedVerifier& part : parts_) most = std::max(most, part.verifier->batch());
    return most;
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
        for (std::size_t i = 0; i < some.size(); ++i) Add(part.term, std::move(verdicts[i]), seconds, sums[begin + i]);
      }
    }
    return sums;
  }

 private:
  static void Add(const SumTerm& term, Verdict verdict, double seconds, Verdict& sum) {
    VerdictPart part{term.name, term.weight, verdict.outcome, verdict.raw_reward, verdict.unscorable_reason, seconds};
    const bool first = sum.parts.empty();
    const bool scorable = verdict.outcome != Outcome::kUnscorable;
    std::vector<VerdictPart> parts = std::move(sum.parts);
    if (first) sum = std::move(verdict);
    if (!scorable && (first || sum.outcome != Outcome::kUnscorable)) {
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

Result<std::vector<SumTerm>> ParseSum(std::string_view text) {
  std::vector<SumTerm> terms;
  std::string_view rest = Trim(text);
  bool negative = rest.starts_with("- ");
  if (negative) rest.remove_prefix(2);
  while (true) {
    const std::size_t sign = FindSign(rest);
    BUTTRESS_ASSIGN_OR_RETURN(SumTerm term, ParseTerm(rest.substr(0, sign), negative));
    if (std::any_of(terms.begin(), terms.end(), [&](const SumTerm& other) { return other.name == term.name; }))
      return InvalidArgument("'" + term.name + "' stands twice in '" + std::string(text) + "'; add the weights");
    terms.push_back(std::move(term));
    if (sign == std::string_view::npos) return terms;
    negative = rest[sign + 1] == '-';
    rest.remove_prefix(sign + 3);
  }
}

std::unique_ptr<Verifier> MakeWeightedSum(std::vector<WeightedVerifier> parts) { return std::make_unique<WeightedSum>(std::move(parts)); }

}  // namespace buttress
