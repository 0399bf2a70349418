#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lib/base/report/check.h"
#include "lib/config/paths.h"
#include "lib/verify/verifier.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

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

Result<std::unique_ptr<Verifier>> MakeVerifier(std::string_view text, const RewardConfig& config) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<SumTerm> terms, ParseSum(text));
  if (terms.size() == 1 && terms.front().weight == 1) return MakeOne(terms.front().name, config);
  std::vector<WeightedVerifier> parts;
  for (const SumTerm& term : terms) {
    BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<Verifier> verifier, MakeOne(term.name, config));
    parts.push_back({{term.weight, WithFileNames(term.name)}, std::move(verifier)});
  }
  return MakeWeightedSum(std::move(parts));
}

Status CheckKnownAnswers(std::string_view name, const Verifier& verifier,
                         std::span<const KnownAnswer> known_answers) {
  for (const KnownAnswer& known : known_answers) {
    const Verdict verdict = verifier.Verify({{}, known.response, known.answer, {}, false});
    if (verdict.outcome != known.outcome) {
      return Internal(fmt::format(
          "verifier '{}' fails its self-test: response '{}' to answer '{}' is judged {}, not {}",
          name, known.response, known.answer, OutcomeName(verdict.outcome),
          OutcomeName(known.outcome)));
    }
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
