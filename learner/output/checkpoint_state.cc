#include "learner/output/checkpoint_state.h"

#include <map>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "lib/base/text/digest.h"
#include "lib/weights/checkpoint_folder.h"

namespace buttress {
namespace {

constexpr std::int64_t kFormat = 2;

struct StateFile {
  StoredCheckpoint stored;
  std::int64_t format = kFormat;
  std::string learner_hex;  // of the state's learner_sha256
};

// Calls visit(name, value) for every field of checkpoint.json but the list of files, in order.
template <class File, class Visit>
void ForEachField(File& file, Visit visit) {
  auto& state = file.stored.state;
  visit("format", file.format);
  visit("run_id", state.run_id);
  visit("step", state.step);
  visit("learner_epoch", state.learner_epoch);
  visit("learner_sha256", file.learner_hex);
  visit("seed", state.seed);
  visit("skipped_in_a_row", state.trainer.skipped_in_a_row);
  visit("optimizer_steps", file.stored.optimizer_steps);
  visit("config_sha256", state.config_sha256);
  visit("gate_threshold", state.trainer.gate.threshold);
  visit("gate_reward_mean", state.trainer.gate.reward_mean);
  visit("gate_sources", state.trainer.gate.sources);
  visit("entropy_coef", state.trainer.entropy.coef);
  visit("entropy_last", state.trainer.entropy.last_entropy);
}

using Gates = std::map<std::string, GateMemory>;

template <class T>
void WriteField(const char* name, const T& value, nlohmann::ordered_json& json) {
  json[name] = value;
}

void WriteField(const char* name, const std::optional<double>& value,
                nlohmann::ordered_json& json) {
  if (value) json[name] = *value;
}

void WriteField(const char* name, const Gates& gates, nlohmann::ordered_json& json) {
  for (const auto& [source, gate] : gates) {
    nlohmann::ordered_json& own = json[name][source] = nlohmann::ordered_json::object();
    WriteField("threshold", gate.threshold, own);
    WriteField("reward_mean", gate.reward_mean, own);
  }
}

// Each returns false if the field is missing or of another type; optional values and gates may be
// missing.
template <class T>
bool ReadField(const nlohmann::json& json, const char* name, T& value) {
  const auto found = json.find(name);
  constexpr bool kText = std::is_same_v<T, std::string>;
  if (found == json.end() || !(kText ? found->is_string() : found->is_number_integer()))
    return false;
  found->get_to(value);
  return true;
}

bool ReadField(const nlohmann::json& json, const char* name, std::optional<double>& value) {
  const auto found = json.find(name);
  if (found == json.end()) return true;
  if (found->is_number()) value = found->get<double>();
  return found->is_number();
}

bool ReadField(const nlohmann::json& json, const char* name, Gates& gates) {
  const auto found = json.find(name);
  if (found == json.end()) return true;
  if (!found->is_object()) return false;
  for (const auto& [source, gate] : found->items()) {
    if (!gate.is_object() || !ReadField(gate, "threshold", gates[source].threshold) ||
        !ReadField(gate, "reward_mean", gates[source].reward_mean))
      return false;
  }
  return true;
}

Status CheckFormat(std::int64_t format) {
  if (format == kFormat) return OkStatus();
  return InvalidArgument("it has format " + std::to_string(format) + "; this build reads format " +
                         std::to_string(kFormat) +
                         "; finish the run with the build that wrote it, or set local.out to "
                         "another folder");
}

}  // namespace

std::string CheckpointToJson(const StoredCheckpoint& checkpoint) {
  const StateFile file{checkpoint, kFormat, ToHex(checkpoint.state.learner_sha256)};
  nlohmann::ordered_json json;
  ForEachField(file, [&](const char* name, const auto& value) { WriteField(name, value, json); });
  for (const WeightFile& shard : checkpoint.files) {
    json["files"].push_back(
        {{"name", shard.name}, {"bytes", shard.bytes}, {"sha256", ToHex(shard.sha256)}});
  }
  json["layout"] = LayoutToJson(checkpoint.layout);
  return json.dump(1) + "\n";
}

Result<StoredCheckpoint> ParseCheckpoint(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return DataLoss(std::string(kCheckpointStateName) + " is not a JSON object");
  StateFile file;
  StoredCheckpoint& stored = file.stored;
  std::string wrong;
  ForEachField(file, [&](const char* name, auto& value) {
    if (!ReadField(json, name, value)) wrong = name;
  });
  if (!wrong.empty()) return DataLoss("field '" + wrong + "' is missing or of another type");
  BUTTRESS_RETURN_IF_ERROR(CheckFormat(file.format));
  BUTTRESS_ASSIGN_OR_RETURN(stored.files, ParseCheckpointFiles(json));
  BUTTRESS_ASSIGN_OR_RETURN(stored.layout, ParseLayout(json));
  if (!file.learner_hex.empty()) {
    const auto learner_sha256 = Sha256FromHex(file.learner_hex);
    if (!learner_sha256) return DataLoss("'learner_sha256' is not 64 hexadecimal digits");
    stored.state.learner_sha256 = *learner_sha256;
  }
  CompleteState(text, stored);
  return std::move(stored);
}

void CompleteState(const std::string& json, StoredCheckpoint& checkpoint) {
  checkpoint.state.digest = Sha256Of(json);
  checkpoint.state.bytes = 0;
  for (const WeightFile& shard : checkpoint.files)
    checkpoint.state.bytes += static_cast<std::int64_t>(shard.bytes);
}

}  // namespace buttress
