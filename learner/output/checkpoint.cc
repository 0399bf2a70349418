#include "learner/output/checkpoint.h"

#include <torch/types.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <vector>

#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/base/text/digest.h"
#include "lib/policy/transformer.h"
#include "lib/weights/checkpoint_folder.h"
#include "lib/weights/safetensors.h"
#include "lib/weights/version_folder.h"

namespace buttress {
namespace {

constexpr char kModelName[] = "model.safetensors";
constexpr char kOptimizerName[] = "optimizer.safetensors";
constexpr std::int64_t kFormat = 1;

Result<WeightFile> WriteTensors(const std::string& folder, const std::string& name,
                                const NamedTensors& tensors) {
  std::vector<SafetensorsWriter::Declared> table;
  for (const auto& [tensor_name, tensor] : tensors)
    table.push_back({tensor_name, SafetensorsDtype(tensor), tensor.sizes().vec()});
  const std::string path = JoinPath(folder, name);
  BUTTRESS_ASSIGN_OR_RETURN(const auto writer,
                            SafetensorsWriter::Create(path, table, {{"format", "pt"}}));
  for (const auto& [tensor_name, tensor] : tensors) {
    at::Tensor storage;
    BUTTRESS_RETURN_IF_ERROR(writer->Append(TensorBytes(tensor, storage)).Annotate(tensor_name));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::string sha256, writer->Finish());
  return WeightFile{name, std::filesystem::file_size(path), sha256};
}

Status CheckTensors(const SafetensorsFile& file, const NamedTensors& tensors) {
  if (file.tensors().size() != tensors.size()) {
    return DataLoss(std::to_string(file.tensors().size()) + " tensors; the model has " +
                    std::to_string(tensors.size()));
  }
  for (const auto& [name, tensor] : tensors) {
    const TensorView* view = file.Find(name);
    if (view == nullptr) return DataLoss("no tensor " + name);
    if (view->shape != tensor.sizes().vec() || view->dtype != SafetensorsDtype(tensor)) {
      return DataLoss("tensor " + name + " has another shape or dtype than the model's");
    }
  }
  return OkStatus();
}

// REQUIRES: CheckTensors returned OK for the same arguments.
void CopyTensors(const SafetensorsFile& file, const NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    const TensorView* view = file.Find(name);
    at::Tensor loaded =
        at::empty(tensor.sizes(), tensor.options().device(at::kCPU).requires_grad(false));
    std::memcpy(loaded.data_ptr(), view->data.data(), view->data.size());
    at::Tensor(tensor).copy_(loaded);
  }
}

struct StateFile {
  CheckpointState state;
  std::int64_t format = kFormat;
  std::string learner_hex;  // of state.learner_sha256
  std::int64_t optimizer_steps = 0;
  WeightManifest manifest;  // the other files of the checkpoint
};

// Calls visit(name, value) for every field of checkpoint.json but the list of files, in order.
template <class File, class Visit>
void ForEachField(File& file, Visit visit) {
  auto& state = file.state;
  visit("format", file.format);
  visit("run_id", state.run_id);
  visit("step", state.step);
  visit("learner_epoch", state.learner_epoch);
  visit("learner_sha256", file.learner_hex);
  visit("seed", state.seed);
  visit("skipped_in_a_row", state.trainer.skipped_in_a_row);
  visit("optimizer_steps", file.optimizer_steps);
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

std::string StateToJson(const StateFile& file) {
  nlohmann::ordered_json json;
  ForEachField(file, [&](const char* name, const auto& value) { WriteField(name, value, json); });
  for (const WeightFile& weights : file.manifest.files) {
    json["files"].push_back(
        {{"name", weights.name}, {"bytes", weights.bytes}, {"sha256", ToHex(weights.sha256)}});
  }
  return json.dump(2) + "\n";
}

Result<StateFile> ParseState(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return DataLoss(std::string(kCheckpointStateName) + " is not a JSON object");
  StateFile file;
  std::string wrong;
  ForEachField(file, [&](const char* name, auto& value) {
    if (!ReadField(json, name, value)) wrong = name;
  });
  if (!wrong.empty()) return DataLoss("field '" + wrong + "' is missing or of another type");
  if (file.format != kFormat)
    return DataLoss("format = " + std::to_string(file.format) + "; this build reads " +
                    std::to_string(kFormat));
  BUTTRESS_ASSIGN_OR_RETURN(file.manifest.files, ParseCheckpointFiles(json));
  for (const WeightFile& named : file.manifest.files) {
    if (named.name != kModelName && named.name != kOptimizerName)
      return DataLoss("unknown file '" + named.name + "'");
  }
  if (file.manifest.files.size() != 2)
    return DataLoss("'files' must name model.safetensors and optimizer.safetensors");
  if (!file.learner_hex.empty()) {
    const auto learner_sha256 = Sha256FromHex(file.learner_hex);
    if (!learner_sha256) return DataLoss("'learner_sha256' is not 64 hexadecimal digits");
    file.state.learner_sha256 = *learner_sha256;
  }
  file.state.digest = Sha256Of(text);
  file.state.bytes = static_cast<std::int64_t>(file.manifest.total_bytes());
  return file;
}

Result<CheckpointState> LoadOne(const std::string& folder, const NamedTensors& parameters,
                                AdamW& optimizer) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(JoinPath(folder, kCheckpointStateName),
                                                             kMaxCheckpointStateBytes));
  BUTTRESS_ASSIGN_OR_RETURN(const StateFile file, ParseState(text));
  BUTTRESS_RETURN_IF_ERROR(VerifyFiles(folder, file.manifest));
  BUTTRESS_ASSIGN_OR_RETURN(const auto model, SafetensorsFile::Open(JoinPath(folder, kModelName)));
  BUTTRESS_ASSIGN_OR_RETURN(const auto moments,
                            SafetensorsFile::Open(JoinPath(folder, kOptimizerName)));
  BUTTRESS_RETURN_IF_ERROR(CheckTensors(*model, parameters));
  BUTTRESS_RETURN_IF_ERROR(CheckTensors(*moments, optimizer.state()));
  CopyTensors(*model, parameters);
  CopyTensors(*moments, optimizer.state());
  optimizer.Resume(file.optimizer_steps);
  return file.state;
}

}  // namespace

Result<CheckpointState> CheckpointStore::Save(CheckpointState state, const NamedTensors& parameters,
                                              const AdamW& optimizer, const Kept& kept) {
  const std::string final_folder = CheckpointFolderOf(folder_, state.step);
  const std::string part = JoinPath(folder_, "part");
  std::error_code error;
  std::filesystem::remove_all(part, error);
  if (error) return Unavailable("cannot remove " + part + ": " + error.message());
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(part));
  StateFile file;
  file.state = state;
  file.learner_hex = ToHex(state.learner_sha256);
  file.optimizer_steps = optimizer.steps();
  BUTTRESS_ASSIGN_OR_RETURN(const WeightFile model, WriteTensors(part, kModelName, parameters));
  Failpoint("checkpoint_weights");
  BUTTRESS_ASSIGN_OR_RETURN(const WeightFile moments,
                            WriteTensors(part, kOptimizerName, optimizer.state()));
  file.manifest.files = {model, moments};
  const std::string json = StateToJson(file);
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(part, kCheckpointStateName), json));
  Failpoint("before_checkpoint");
  // The folder exists if the run resumed from an older checkpoint and trained the step again.
  std::filesystem::remove_all(final_folder, error);
  Failpoint("checkpoint_rename");
  if (!error) std::filesystem::rename(part, final_folder, error);
  if (error)
    return Unavailable("cannot rename " + part + " to " + final_folder + ": " + error.message());
  Failpoint("checkpoint_sync");
  BUTTRESS_RETURN_IF_ERROR(SyncFolder(folder_));
  Failpoint("checkpoint_delete");
  DeleteOld(kept);
  state.digest = Sha256Of(json);
  state.bytes = static_cast<std::int64_t>(file.manifest.total_bytes());
  return state;
}

// A checkpoint that cannot be deleted costs space only.
void CheckpointStore::DeleteOld(const Kept& kept) const {
  const std::vector<std::int64_t> steps = CheckpointSteps(folder_);
  if (std::ssize(steps) <= keep_last_) return;
  const std::set<std::int64_t> stay = kept(steps);
  for (auto step = steps.begin() + keep_last_; step != steps.end(); ++step) {
    std::error_code error;
    if (!stay.contains(*step))
      std::filesystem::remove_all(CheckpointFolderOf(folder_, *step), error);
  }
}

std::optional<CheckpointState> CheckpointStore::Load(const NamedTensors& parameters,
                                                     AdamW& optimizer) {
  for (const std::int64_t step : CheckpointSteps(folder_)) {
    auto state = LoadOne(CheckpointFolderOf(folder_, step), parameters, optimizer);
    if (state.ok() && state->step == step) return *std::move(state);
    Log(kWarn, "incomplete checkpoint skipped",
        {{"folder", CheckpointFolderOf(folder_, step)},
         {"why", state.ok() ? "its step differs from its name" : state.status().message()}});
  }
  return std::nullopt;
}

Status CheckpointStore::PutAsideAfter(std::int64_t step) {
  bool any = false;
  for (const std::int64_t newer : CheckpointSteps(folder_)) {
    if (newer <= step) break;
    any = true;
    const std::string aside = JoinPath(folder_, "damaged-step-" + std::to_string(newer));
    std::error_code error;
    std::filesystem::remove_all(aside, error);
    if (!error) std::filesystem::rename(CheckpointFolderOf(folder_, newer), aside, error);
    if (error)
      return Unavailable("cannot rename a checkpoint to " + aside + ": " + error.message());
    Log(kWarn, "a checkpoint that could not be loaded is put aside", {{"folder", aside}});
  }
  return any ? SyncFolder(folder_) : OkStatus();
}

}  // namespace buttress
