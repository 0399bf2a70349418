#include "lib/verify/verifier.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lib/base/os/clock.h"
#include "lib/base/report/check.h"
#include "lib/config/paths.h"
#include "lib/config/reward_text.h"

namespace buttress {
namespace {

// One part of a weighted sum.
struct WeightedVerifier {
  SumTerm term;
  std::unique_ptr<Verifier> verifier;
};

// Combines verifiers as a weighted sum (lib/config/reward_text.h).
//
// The first part determines the outcome, raw reward and answers of the verdict, so that the others
// never change which groups count as collapsed. Verdict::parts holds the reward and weight of
// every part, and TotalReward adds them up. An unscorable part makes the whole verdict unscorable.
class WeightedSum : public Verifier {
 public:
  explicit WeightedSum(std::vector<WeightedVerifier> parts) : parts_(std::move(parts)) {}

  Verdict Verify(const VerifyRequest& request) const override {
    return std::move(VerifyGroup({&request, 1}).front());
  }

  bool whole_groups() const override {
    return std::ranges::any_of(
        parts_, [](const WeightedVerifier& part) { return part.verifier->whole_groups(); });
  }

  bool bounds_time() const override {
    return std::ranges::any_of(
        parts_, [](const WeightedVerifier& part) { return part.verifier->bounds_time(); });
  }

  std::vector<Verdict> VerifyGroup(std::span<const VerifyRequest> requests) const override {
    std::vector<Verdict> sums(requests.size());
    for (const WeightedVerifier& part : parts_) {
      const double started = MonotonicSeconds();
      std::vector<Verdict> verdicts = part.verifier->VerifyGroup(requests);
      const double seconds = (MonotonicSeconds() - started) / static_cast<double>(requests.size());
      for (std::size_t i = 0; i < requests.size(); ++i)
        Add(part.term, std::move(verdicts[i]), seconds, sums[i]);
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

class ConfiguredVerifiers : public VerifierSet {
 public:
  Status Add(const std::string& text, const RewardConfig& config) {
    if (rewards_.contains(text)) return OkStatus();
    BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<Verifier> verifier, MakeVerifier(text, config));
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<SumTerm> terms, ParseSum(text));
    for (const SumTerm& term : terms) {
      const std::string name = WithFileNames(term.name);
      if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
    }
    rewards_[text] = {WithFileNames(terms.front().name), std::move(verifier)};
    return OkStatus();
  }

  void SetTexts(const RewardConfig& config) {
    default_ = config.verifier;
    by_source_.insert(config.by_source.begin(), config.by_source.end());
  }

  const Verifier& For(std::string_view source) const override {
    return *RewardFor(source).verifier;
  }

  std::string_view NameFor(std::string_view source) const override {
    return RewardFor(source).name;
  }

  std::vector<std::string> names() const override { return names_; }

 private:
  struct Reward {
    std::string name;  // of the first part
    std::unique_ptr<Verifier> verifier;
  };

  const Reward& RewardFor(std::string_view source) const {
    const auto found = by_source_.find(source);
    return rewards_.find(found == by_source_.end() ? default_ : found->second)->second;
  }

  std::map<std::string, Reward, std::less<>> rewards_;  // by the text in the configuration
  std::map<std::string, std::string, std::less<>> by_source_;
  std::string default_;
  std::vector<std::string> names_;
};

// Makes one verifier. "python:rewards.py:accuracy" is the entry python with the argument
// rewards.py:accuracy.
Result<std::unique_ptr<Verifier>> MakeOne(std::string_view text, const RewardConfig& config) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view argument = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  BUTTRESS_RETURN_IF_ERROR(CheckVerifierName(name));
  const auto table = VerifierTable();
  const auto entry = std::ranges::find(table, name, &VerifierEntry::name);
  BUTTRESS_CHECK(entry != table.end(), "a VerifierId has no row in the table");
  if (!entry->known_answers.empty()) {
    RewardConfig tested = config;
    tested.math = {};  // the mode and the anchors change which answers are correct
    BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<Verifier> twin, entry->make(tested, argument));
    BUTTRESS_RETURN_IF_ERROR(CheckKnownAnswers(name, *twin, entry->known_answers));
  }
  return entry->make(config, argument);
}

}  // namespace

Verdict Correct(std::string given, std::string gold) {
  return {.outcome = Outcome::kCorrect,
          .raw_reward = 1,
          .given = std::move(given),
          .gold = std::move(gold)};
}

Verdict Wrong(std::string given, std::string gold) {
  return {.outcome = Outcome::kWrong, .given = std::move(given), .gold = std::move(gold)};
}

Verdict Unscorable(std::string reason) { return {.unscorable_reason = std::move(reason)}; }

Verdict NotApplicable(std::string reason) {
  return {.unscorable_reason = std::move(reason), .not_applicable = true};
}

std::string TimeoutReason(std::int64_t timeout_ms) {
  return fmt::format("{}: scoring took longer than run.reward.timeout_ms = {}; raise it",
                     kTimeoutReason, timeout_ms);
}

double TotalReward(const Verdict& verdict) {
  if (verdict.parts.empty()) return verdict.raw_reward;
  double total = 0;
  for (const VerdictPart& part : verdict.parts) total += part.weight * part.raw_reward;
  return total;
}

std::vector<Verdict> Verifier::VerifyGroup(std::span<const VerifyRequest> requests) const {
  std::vector<Verdict> verdicts;
  verdicts.reserve(requests.size());
  for (const VerifyRequest& request : requests) verdicts.push_back(Verify(request));
  return verdicts;
}

Result<std::unique_ptr<Verifier>> MakeVerifier(std::string_view text, const RewardConfig& config) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<SumTerm> terms, ParseSum(text));
  if (terms.size() == 1 && terms.front().weight == 1) return MakeOne(terms.front().name, config);
  std::vector<WeightedVerifier> parts;
  for (const SumTerm& term : terms) {
    BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<Verifier> verifier, MakeOne(term.name, config));
    parts.push_back({{term.weight, WithFileNames(term.name)}, std::move(verifier)});
  }
  return std::unique_ptr<Verifier>(std::make_unique<WeightedSum>(std::move(parts)));
}

Status CheckKnownAnswers(std::string_view name, const Verifier& verifier,
                         std::span<const KnownAnswer> known_answers) {
  for (const KnownAnswer& known : known_answers) {
    const Verdict verdict = verifier.Verify({{}, known.response, known.answer, {}, false});
    if (verdict.outcome != known.outcome)
      return Internal(fmt::format(
          "verifier '{}' fails its self-test: response '{}' to answer '{}' is judged {}, not {}",
          name, known.response, known.answer, OutcomeName(verdict.outcome),
          OutcomeName(known.outcome)));
  }
  return OkStatus();
}

Result<std::unique_ptr<VerifierSet>> VerifierSet::Make(const RewardConfig& config) {
  auto set = std::make_unique<ConfiguredVerifiers>();
  if (Status status = set->Add(config.verifier, config); !status.ok())
    return status.Annotate("run.reward.verifier");
  for (const auto& [source, name] : config.by_source) {
    if (Status status = set->Add(name, config); !status.ok())
      return status.Annotate("run.reward.by_source." + source);
  }
  set->SetTexts(config);
  return std::unique_ptr<VerifierSet>(std::move(set));
}

}  // namespace buttress
