#include "tests/simulation/learner/checkpoint_folder.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "learner/output/checkpoint_commit.h"
#include "learner/output/kept_folders.h"
#include "lib/base/os/file.h"
#include "lib/weights/checkpoint_folder.h"
#include "lib/weights/version_folder.h"

namespace buttress::simulation {
namespace {

constexpr std::int64_t kKeepLast = 2;        // as run.checkpoints.keep_last
constexpr std::int64_t kWeightBytes = 1500;  // of some sectors

// As CheckpointStore::Check, and reads the weights.
Result<Checkpoint> ReadCheckpoint(const std::string& folder) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(JoinPath(folder, kCheckpointStateName),
                                                             kMaxCheckpointStateBytes));
  BUTTRESS_ASSIGN_OR_RETURN(const StoredCheckpoint stored, ParseCheckpoint(text));
  WeightManifest files;
  files.files = stored.files;
  BUTTRESS_RETURN_IF_ERROR(VerifyFiles(folder, files));
  BUTTRESS_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(JoinPath(folder, kWeightsFile)));
  const TensorView* const weights = file->Find("weights");
  if (weights == nullptr) return DataLoss("it has no weights");
  const std::string bytes(weights->data);
  const CheckpointState& state = stored.state;
  return Checkpoint{{state.learner_epoch, static_cast<std::uint64_t>(state.step), state.digest},
                    state.run_id,
                    state.learner_sha256,
                    bytes.substr(0, bytes.find(' '))};
}

}  // namespace

LearnerFolder ReadCheckpoints(const std::string& folder) {
  LearnerFolder found;
  for (const std::int64_t step : CheckpointSteps(folder)) {
    if (auto checkpoint = ReadCheckpoint(CheckpointFolderOf(folder, step)); checkpoint.ok())
      found[static_cast<std::uint64_t>(step)] = *std::move(checkpoint);
  }
  return found;
}

std::optional<Checkpoint> CheckpointFolder::Find(std::uint64_t before) {
  PutMovedBack(folder_);
  for (const std::int64_t step : CheckpointSteps(folder_)) {
    if (static_cast<std::uint64_t>(step) >= before) continue;
    if (auto found = ReadCheckpoint(CheckpointFolderOf(folder_, step)); found.ok())
      return *std::move(found);
    damaged_.insert(step);
  }
  return std::nullopt;
}

Status CheckpointFolder::Begin(const Checkpoint& checkpoint) {
  CheckpointState state;
  state.step = static_cast<std::int64_t>(checkpoint.version.step);
  state.run_id = checkpoint.run_id;
  state.learner_epoch = checkpoint.version.learner_epoch;
  state.learner_sha256 = checkpoint.learner_sha256;
  const StoredUnit unit = {"u", kWeightBytes, {{"weights", {kWeightBytes}}}};
  writing_ = {state, state.step, {}, {unit}, PartFolderOf(folder_, state)};
  BUTTRESS_RETURN_IF_ERROR(MakePartFolder(folder_, writing_.folder));
  const std::vector<SafetensorsWriter::Declared> table = {{"weights", "U8", {kWeightBytes}}};
  BUTTRESS_ASSIGN_OR_RETURN(
      writer_, SafetensorsWriter::Create(JoinPath(writing_.folder, kWeightsFile), table, {}));
  std::string bytes = checkpoint.weights;
  bytes.resize(kWeightBytes, ' ');
  return writer_->Append(bytes);
}

Result<std::string> CheckpointFolder::Finish() {
  const auto writer = std::move(writer_);
  BUTTRESS_ASSIGN_OR_RETURN(const std::string sha256, writer->Finish());
  std::error_code ignored;
  const auto bytes = std::filesystem::file_size(JoinPath(writing_.folder, kWeightsFile), ignored);
  writing_.files = {{kWeightsFile, bytes, sha256}};
  BUTTRESS_RETURN_IF_ERROR(CommitCheckpoint(folder_, writing_));
  return writing_.state.digest;
}

Status CheckpointFolder::StartFrom(std::uint64_t step, std::uint64_t epoch) {
  const auto from = static_cast<std::int64_t>(step);
  BUTTRESS_RETURN_IF_ERROR(PutCheckpointsAside(folder_, from, epoch, damaged_));
  return step == 0 ? OkStatus() : MarkStart(folder_, from);
}

Status CheckpointFolder::Accepted(std::uint64_t step) {
  BUTTRESS_RETURN_IF_ERROR(MarkAccepted(folder_, static_cast<std::int64_t>(step)));
  DeleteOldCheckpoints(folder_, kKeepLast, [](const auto&) { return std::set<std::int64_t>(); });
  return OkStatus();
}

}  // namespace buttress::simulation
