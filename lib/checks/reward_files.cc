#include "lib/checks/reward_files.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/config/reward_text.h"
#include "lib/config/run_folder.h"
#include "lib/verify/remote/python_modules.h"

namespace buttress {
namespace {

using nlohmann::json;

// The last start of the run that versions.json has; null if there is none.
json LastStart(const std::string& out) {
  const auto text = ReadFile(VersionsPath(out));
  if (!text.ok()) return nullptr;
  const json record = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto starts = record.is_object() ? record.find("starts") : record.end();
  return starts == record.end() || !starts->is_array() || starts->empty() ? json() : starts->back();
}

std::string TextOf(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// The digests by name of the files that could be read.
std::map<std::string, std::string> DigestsOf(const json& start) {
  std::map<std::string, std::string> digests;
  if (!start.is_object() || !start.contains("reward") || !start["reward"].is_array())
    return digests;
  for (const json& file : start["reward"]) {
    if (!file.is_object()) continue;
    const std::string digest = TextOf(file, "sha256");
    if (!digest.empty()) digests[TextOf(file, "name")] = digest;
  }
  return digests;
}

}  // namespace

std::vector<RewardFile> RewardFilesOf(const RewardConfig& config) {
  std::vector<RewardFile> files;
  for (const std::string& function : PythonFilesOf(config)) {
    std::vector<std::string> modules = LocalModules(function);
    const std::filesystem::path folder = std::filesystem::path(modules.front()).parent_path();
    for (std::string& path : modules) {
      const auto text = ReadFile(path);
      std::string name = std::filesystem::path(path).lexically_relative(folder).string();
      files.push_back({std::move(path), std::move(name), text.ok() ? ToHex(Sha256Of(*text)) : ""});
    }
  }
  return files;
}

Status CheckRewardFiles(const RunConfig& config) {
  const json start = LastStart(config.local.out);
  std::map<std::string, std::string> before = DigestsOf(start);
  if (before.empty()) return OkStatus();
  const std::string was = TextOf(start, "reward_revision");
  const std::string& revision = config.run.reward.python.revision;
  if (!revision.empty() && revision != was) return OkStatus();
  std::vector<std::string> changed;
  std::size_t readable = 0;
  for (const RewardFile& file : RewardFilesOf(config.run.reward)) {
    const auto known = before.find(file.name);
    if (!file.sha256.empty() && known == before.end()) changed.push_back(file.path + " (new)");
    if (!file.sha256.empty() && known != before.end() && known->second != file.sha256)
      changed.push_back(file.path);
    readable += file.sha256.empty() ? 0 : 1;
    if (known != before.end()) before.erase(known);
  }
  for (const auto& [name, digest] : before) changed.push_back(name + " (no longer imported)");
  if (changed.empty() || readable == 0) return OkStatus();
  return InvalidArgument(fmt::format(
      "the run in {} was scored with other files of its reward functions; since then changed:\n"
      "  {}\nput the old ones back, give the run another folder (local.out), or accept the new "
      "ones "
      "with --set run.reward.python.revision=NAME{}",
      config.local.out, fmt::join(changed, "\n  "),
      was.empty() ? ", a name for their new state" : ", another name than '" + was + "'"));
}

}  // namespace buttress
