#include <map>
#include <utility>

#include "lib/verify/verifier.h"

namespace buttress {
namespace {

class ConfiguredVerifiers : public VerifierSet {
 public:
  Status Add(const std::string& name, const RewardConfig& config) {
    if (verifiers_.contains(name)) return OkStatus();
    BUTTRESS_ASSIGN_OR_RETURN(verifiers_[name], MakeVerifier(name, config));
    return OkStatus();
  }

  void SetNames(const RewardConfig& config) {
    default_ = config.verifier;
    by_source_.insert(config.by_source.begin(), config.by_source.end());
  }

  const Verifier& For(std::string_view source) const override {
    return *verifiers_.find(NameFor(source))->second;
  }

  std::string_view NameFor(std::string_view source) const override {
    const auto found = by_source_.find(source);
    return found == by_source_.end() ? default_ : found->second;
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, verifier] : verifiers_) names.push_back(name);
    return names;
  }

 private:
  std::map<std::string, std::unique_ptr<Verifier>, std::less<>> verifiers_;
  std::map<std::string, std::string, std::less<>> by_source_;
  std::string default_;
};

}  // namespace

Result<std::unique_ptr<Verifier>> MakeVerifier(std::string_view name, const RewardConfig& config) {
  std::string known;
  for (const VerifierEntry& entry : VerifierTable()) {
    if (entry.name == name) {
      RewardConfig tested = config;
      tested.math = {};  // its mode and anchors change what is right
      BUTTRESS_RETURN_IF_ERROR(CheckKnownAnswers(name, *entry.make(tested), entry.known_answers));
      return entry.make(config);
    }
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return InvalidArgument("unknown verifier '" + std::string(name) + "'; known: " + known);
}

Status CheckKnownAnswers(std::string_view name,
                         const Verifier& verifier,
                         std::span<const KnownAnswer> known_answers) {
  for (const KnownAnswer& known : known_answers) {
    const Verdict verdict = verifier.Verify({{}, known.response, known.answer, {}, false});
    if (verdict.outcome != known.outcome) {
      return Internal("verifier '" + std::string(name) + "' fails its self-test: response '" +
                      std::string(known.response) + "' to answer '" + std::string(known.answer) +
                      "' is judged " + std::string(OutcomeName(verdict.outcome)) + ", not " +
                      std::string(OutcomeName(known.outcome)));
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
  set->SetNames(config);
  return std::unique_ptr<VerifierSet>(std::move(set));
}

}  // namespace buttress
