#include "lib/weights/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/weights/version_folder.h"

namespace buttress {
namespace {

constexpr std::string_view kPrefix = "step-";

Result<WeightFile> ParseFile(const nlohmann::json& json) {
  const bool complete = json.is_object() && json.contains("name") && json["name"].is_string() &&
                        json.contains("bytes") && json["bytes"].is_number_integer() &&
                        json.contains("sha256") && json["sha256"].is_string();
  if (!complete)
    return DataLoss("an entry of 'files' is not an object with 'name', 'bytes' and 'sha256'");
  WeightFile file{json["name"], json["bytes"], ""};
  const auto sha256 = Sha256FromHex(json["sha256"]);
  if (!sha256) return DataLoss("sha256 of " + file.name + " is not 64 hexadecimal digits");
  file.sha256 = *sha256;
  return file;
}

Result<CheckpointIdentity> ParseIdentity(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return DataLoss(std::string(kCheckpointStateName) + " is no JSON object");
  CheckpointIdentity identity;
  for (const char* name : {"step", "learner_epoch"}) {
    if (!json.contains(name) || !json[name].is_number_integer())
      return DataLoss(std::string("field '") + name + "' is missing or no number");
  }
  if (!json.contains("run_id") || !json["run_id"].is_string())
    return DataLoss("field 'run_id' is missing or no text");
  identity.run_id = json["run_id"];
  identity.step = json["step"];
  identity.learner_epoch = json["learner_epoch"];
  BUTTRESS_ASSIGN_OR_RETURN(identity.files, ParseCheckpointFiles(json));
  identity.digest = Sha256Of(text);
  return identity;
}

}  // namespace

std::optional<std::string> Sha256FromHex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(hex.data() + i, hex.data() + i + 2, value, 16);
    if (error != std::errc() || end != hex.data() + i + 2) return std::nullopt;
    bytes.push_back(static_cast<char>(value));
  }
  if (hex.size() != 64) return std::nullopt;
  return bytes;
}

std::vector<std::int64_t> CheckpointSteps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t step = 0;
    const char* const last = name.data() + name.size();
    const auto [end, parse_error] = std::from_chars(name.data() + kPrefix.size(), last, step);
    if (parse_error == std::errc() && end == last) steps.push_back(step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

std::string CheckpointFolderOf(const std::string& folder, std::int64_t step) {
  return JoinPath(folder, std::string(kPrefix) + std::to_string(step));
}

Result<std::vector<WeightFile>> ParseCheckpointFiles(const nlohmann::json& state) {
  const auto files = state.find("files");
  if (files == state.end() || !files->is_array())
    return DataLoss("field 'files' is missing or no list");
  std::vector<WeightFile> parsed;
  for (const auto& entry : *files) {
    BUTTRESS_ASSIGN_OR_RETURN(WeightFile file, ParseFile(entry));
    parsed.push_back(std::move(file));
  }
  return parsed;
}

Result<CheckpointIdentity> VerifyCheckpoint(const std::string& checkpoint_folder) {
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::string text,
      ReadFile(JoinPath(checkpoint_folder, kCheckpointStateName), kMaxCheckpointStateBytes));
  Result<CheckpointIdentity> identity = ParseIdentity(text);
  if (!identity.ok()) return identity.status().Annotate(checkpoint_folder);
  WeightManifest manifest;
  manifest.files = identity->files;
  BUTTRESS_RETURN_IF_ERROR(VerifyFiles(checkpoint_folder, manifest));
  return identity;
}

}  // namespace buttress
