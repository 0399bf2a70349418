#include "lib/checks/hub_name.h"

#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace buttress {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path HubCache() {
  if (const std::string cache = Environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = Environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  return fs::path(Environment("HOME")) / ".cache/huggingface/hub";
}

// The snapshot with a config.json that was written last.
std::optional<fs::path> NewestSnapshot(const fs::path& model) {
  std::optional<fs::path> newest;
  fs::file_time_type newest_time;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(model / "snapshots", error)) {
    if (!fs::exists(entry.path() / "config.json", error)) continue;
    const fs::file_time_type time = fs::last_write_time(entry.path(), error);
    if (error || (newest && time <= newest_time)) continue;
    newest = entry.path();
    newest_time = time;
  }
  return newest;
}

}  // namespace

std::string HubAdvice(const std::string& name) {
  std::string folder = "models--" + name;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path model = HubCache() / folder;
  if (const auto snapshot = NewestSnapshot(model)) {
    return fmt::format("{} is a name of Hugging Face's hub; its folder on this machine is {}", name,
                       snapshot->string());
  }
  const std::string target = name.substr(name.find('/') + 1);
  return fmt::format(
      "{} is a name of Hugging Face's hub and not in its cache {}; download it with `hf download "
      "{} "
      "--local-dir {}` and name that folder",
      name, HubCache().string(), name, target);
}

}  // namespace buttress
