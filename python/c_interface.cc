#include "python/c_interface.h"

#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/reference/advantages.h"
#include "lib/base/report/status.h"
#include "lib/base/text/bounded_json.h"
#include "lib/config/load.h"
#include "lib/rl/advantage/advantage.h"
#include "lib/verify/verifier.h"

namespace buttress {
namespace {

using nlohmann::json;

// Appends {"avspo": {"mode": "ladder"}} under "run.algorithm" as "run.algorithm.avspo.mode=ladder".
void AddOverrides(const std::string& path, const json& value, std::vector<std::string>& overrides) {
  if (value.is_object()) {
    for (const auto& [name, inner] : value.items())
      AddOverrides(path + "." + name, inner, overrides);
  } else {
    overrides.push_back(path + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
  }
}

std::vector<std::string> Overrides(const std::string& section, const json& arguments) {
  std::vector<std::string> overrides;
  AddOverrides(section, arguments.value("settings", json::object()), overrides);
  return overrides;
}

// A text among the arguments, or `otherwise` where there is none.
Result<std::string> TextIn(const json& arguments, const char* name, const char* otherwise) {
  const json text = arguments.value(name, json(otherwise));
  if (text.is_string()) return text.get<std::string>();
  return InvalidArgument(fmt::format("{} = {}; expected a text", name, text.dump()));
}

Result<GroupBatch> ReadGroups(const json& arguments) {
  std::string lines;
  for (const json& group : arguments.at("groups")) lines += group.dump() + "\n";
  return ParseGroups(lines, "group");
}

Result<json> Advantages(const json& arguments) {
  std::vector<std::string> overrides = Overrides("run.algorithm", arguments);
  overrides.push_back("run.algorithm.advantage=" + arguments.value("estimator", "grpo"));
  BUTTRESS_ASSIGN_OR_RETURN(const AlgorithmConfig options, ParseAlgorithm(overrides));
  BUTTRESS_ASSIGN_OR_RETURN(const GroupBatch batch, ReadGroups(arguments));
  const std::string name(InfoOf(options.advantage).name());
  if (InfoOf(options.advantage).reads_lengths && !batch.has_lengths)
    return InvalidArgument(name + " weighs completions by their tokens; give `lengths`");
  AdvantageInput input = batch.Input();
  input.key = AdvantageKey(arguments.value("seed", std::uint64_t{1}),
                           arguments.value("step", std::int64_t{1}));
  BUTTRESS_ASSIGN_OR_RETURN(const AdvantageOutput out, ComputeAdvantages(input, options));
  if (!out.entropy_scale.empty()) {
    return InvalidArgument(name +
                           " gives each token an advantage of its own, by the entropies of the "
                           "policy, which are not an argument; choose another estimator");
  }
  json groups = json::array();
  for (std::size_t k = 0; k < batch.ids.size(); ++k) {
    groups.push_back(GroupRows(std::span<const double>(out.advantages), batch.group_offsets, k));
  }
  return json{{"advantages", std::move(groups)}};
}

json Estimators() {
  json names = json::array();
  for (const ChoiceRow<Estimator>& row : kChoices<Estimator>)
    names.push_back(std::string(row.name));
  return names;
}

Result<json> Acr(const json& arguments) {
  BUTTRESS_ASSIGN_OR_RETURN(const GroupBatch batch, ReadGroups(arguments));
  CollapseCounts counts;
  json classes = json::array();
  for (const CollapseClass collapse : batch.classes) {
    counts.Add(collapse);
    classes.push_back(CollapseClassName(collapse));
  }
  json result = {{"acr", nullptr}, {"groups", counts.groups}, {"classes", std::move(classes)}};
  if (counts.constant() + counts.mixed > 0) result["acr"] = counts.acr();
  for (const CollapseClassRow& row : kCollapseClasses)
    result[std::string(row.name)] = counts.*row.count;
  return result;
}

// The verifiers that calls have named. They live as long as the process: some have processes of
// their own, and all are tested on known answers when they are made.
class Verifiers {
 public:
  Result<const VerifierSet*> Get(const std::string& verifier, const json& arguments) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<VerifierSet>& made =
        sets_[verifier + "\n" + arguments.value("settings", json::object()).dump()];
    if (made == nullptr) {
      BUTTRESS_ASSIGN_OR_RETURN(RewardConfig config,
                                ParseReward(Overrides("run.reward", arguments)));
      config.verifier = verifier;
      BUTTRESS_RETURN_IF_ERROR(ValidateRewardConfig(config));
      BUTTRESS_ASSIGN_OR_RETURN(made, VerifierSet::Make(config));
    }
    return made.get();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<VerifierSet>> sets_;
};

Result<json> Verify(const json& arguments) {
  // Never destroyed: threads of the host may still verify when it exits.
  static Verifiers& verifiers = *new Verifiers;
  BUTTRESS_ASSIGN_OR_RETURN(const std::string verifier, TextIn(arguments, "verifier", "math"));
  BUTTRESS_ASSIGN_OR_RETURN(const VerifierSet* set, verifiers.Get(verifier, arguments));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string response, TextIn(arguments, "response", ""));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string answer, TextIn(arguments, "answer", ""));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string prompt, TextIn(arguments, "prompt", ""));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string source, TextIn(arguments, "source", kDefaultSource));
  json row = arguments.value("row", json::object());
  if (!row.is_object())
    return InvalidArgument("row = " + row.dump() + "; expected the fields of a row by their names");
  row["prompt"] = prompt;
  const std::string extra_json = row.dump();
  const Verdict verdict = set->For(source).Verify({.prompt = prompt,
                                                   .response = response,
                                                   .answer = answer,
                                                   .extra_json = extra_json,
                                                   .truncated = arguments.value("truncated", false),
                                                   .source = source});
  json result = {{"outcome", OutcomeName(verdict.outcome)},
                 {"reward", nullptr},
                 {"reason", verdict.unscorable_reason},
                 {"given", verdict.given},
                 {"gold", verdict.gold},
                 {"anchor", verdict.anchor}};
  if (verdict.outcome != Outcome::kUnscorable) result["reward"] = TotalReward(verdict);
  return result;
}

Result<json> Call(const std::string& function, const std::string& text) {
  if (NestedDeeper(text))
    return InvalidArgument("arguments are nested deeper than " + std::to_string(kMaxJsonDepth));
  const json arguments = json::parse(text);
  if (function == "advantages") return Advantages(arguments);
  if (function == "estimators") return Estimators();
  if (function == "acr") return Acr(arguments);
  if (function == "verify") return Verify(arguments);
  return InvalidArgument("'" + function +
                         "' is unknown; choose one of: advantages, estimators, acr, "
                         "verify");
}

json Answer(const std::string& function, const std::string& text) {
  try {
    const Result<json> result = Call(function, text);
    if (result.ok()) return {{"result", *result}};
    return {{"error", function + ": " + result.status().message()}};
  } catch (const std::exception& e) {  // of the JSON library, for arguments of other types
    return {{"error", function + ": " + e.what()}};
  }
}

}  // namespace
}  // namespace buttress

const char* buttress_version(void) { return BUTTRESS_VERSION; }

char* buttress_call(const char* function, const char* arguments) {
  using nlohmann::json;
  return strdup(buttress::Answer(function, arguments)
                    .dump(-1, ' ', false, json::error_handler_t::replace)
                    .c_str());
}

void buttress_free(char* text) { std::free(text); }
