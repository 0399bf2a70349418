#include "learner/output/checkpoint.h"

#include <torch/types.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
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
  std::int64_t optimizer_steps = 0;
  WeightManifest manifest;  // the other files of the checkpoint
};

std::string StateToJson(const StateFile& file) {
  nlohmann::ordered_json json = {{"format", kFormat},
                                 {"run_id", file.state.run_id},
                                 {"step", file.state.step},
                                 {"learner_epoch", file.state.learner_epoch},
                                 {"learner_sha256", ToHex(file.state.learner_sha256)},
                                 {"seed", file.state.seed},
                                 {"skipped_in_a_row", file.state.trainer.skipped_in_a_row},
                                 {"optimizer_steps", file.optimizer_steps},
                                 {"config_sha256", file.state.config_sha256}};
  if (file.state.trainer.gate.threshold)
    json["gate_threshold"] = *file.state.trainer.gate.threshold;
  if (file.state.trainer.gate.reward_mean)
    json["gate_reward_mean"] = *file.state.trainer.gate.reward_mean;
  for (const auto& [source, gate] : file.state.trainer.gate.sources) {
    auto& own = json["gate_sources"][source];
    own = nlohmann::ordered_json::object();
    if (gate.threshold) own["threshold"] = *gate.threshold;
    if (gate.reward_mean) own["reward_mean"] = *gate.reward_mean;
  }
  if (file.state.trainer.entropy.coef) json["entropy_coef"] = *file.state.trainer.entropy.coef;
  if (file.state.trainer.entropy.last_entropy)
    json["entropy_last"] = *file.state.trainer.entropy.last_entropy;
  for (const WeightFile& weights : file.manifest.files) {
    json["files"].push_back(
        {{"name", weights.name}, {"bytes", weights.bytes}, {"sha256", ToHex(weights.sha256)}});
  }
  return json.dump(2) + "\n";
}

class StateReader {
 public:
  explicit StateReader(const nlohmann::json& json) : json_(json) {}

  template <class T>
  void Number(const char* name, T& value) {
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_number_integer()) {
      wrong_ = name;
    } else {
      value = found->get<T>();
    }
  }

  // Reads a field that may be missing.
  void Number(const char* name, std::optional<double>& value) {
    const auto found = json_.find(name);
    if (found == json_.end()) return;
    if (found->is_number()) {
      value = found->get<double>();
    } else {
      wrong_ = name;
    }
  }

  // Reads the gates of the sources, which may be missing.
  void Gates(const char* name, std::map<std::string, GateMemory>& gates) {
    const auto found = json_.find(name);
    if (found == json_.end()) return;
    if (!found->is_object()) wrong_ = name;
    for (const auto& [source, json] : found->items()) {
      StateReader gate(json);
      if (json.is_object()) {
        gate.Number("threshold", gates[source].threshold);
        gate.Number("reward_mean", gates[source].reward_mean);
      }
      if (!json.is_object() || !gate.wrong_.empty()) wrong_ = name;
    }
  }

  void Text(const char* name, std::string& value) {
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_string()) {
      wrong_ = name;
    } else {
      value = found->get<std::string>();
    }
  }

  Status status() const {
    return wrong_.empty() ? OkStatus()
                          : DataLoss("field '" + wrong_ + "' is missing or of another type");
  }

 private:
  const nlohmann::json& json_;
  std::string wrong_;
};

Result<StateFile> ParseState(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return DataLoss(std::string(kCheckpointStateName) + " is not a JSON object");
  StateFile file;
  std::int64_t format = 0;
  StateReader reader(json);
  reader.Number("format", format);
  reader.Number("step", file.state.step);
  reader.Number("learner_epoch", file.state.learner_epoch);
  reader.Number("seed", file.state.seed);
  reader.Number("skipped_in_a_row", file.state.trainer.skipped_in_a_row);
  reader.Number("optimizer_steps", file.optimizer_steps);
  reader.Number("gate_threshold", file.state.trainer.gate.threshold);
  reader.Number("gate_reward_mean", file.state.trainer.gate.reward_mean);
  reader.Gates("gate_sources", file.state.trainer.gate.sources);
  reader.Number("entropy_coef", file.state.trainer.entropy.coef);
  reader.Number("entropy_last", file.state.trainer.entropy.last_entropy);
  reader.Text("config_sha256", file.state.config_sha256);
  reader.Text("run_id", file.state.run_id);
  std::string learner_hex;
  reader.Text("learner_sha256", learner_hex);
  BUTTRESS_RETURN_IF_ERROR(reader.status());
  if (format != kFormat)
    return DataLoss("format = " + std::to_string(format) + "; this build reads " +
                    std::to_string(kFormat));
  BUTTRESS_ASSIGN_OR_RETURN(file.manifest.files, ParseCheckpointFiles(json));
  for (const WeightFile& named : file.manifest.files) {
    if (named.name != kModelName && named.name != kOptimizerName)
      return DataLoss("unknown file '" + named.name + "'");
  }
  if (file.manifest.files.size() != 2)
    return DataLoss("'files' must name model.safetensors and optimizer.safetensors");
  if (!learner_hex.empty()) {
    const auto learner_sha256 = Sha256FromHex(learner_hex);
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
  StateFile file{state, optimizer.steps(), {}};
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
