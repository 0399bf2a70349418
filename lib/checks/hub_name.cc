#include "lib/checks/hub_name.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
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

bool IsHubName(const std::string& path) {
  const std::size_t slash = path.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == path.size()) return false;
  if (path.front() == '.' || path.find('/', slash + 1) != std::string::npos) return false;
  return std::ranges::all_of(path, [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/';
  });
}

}  // namespace

std::string HubNameOf(const std::string& path) {
  if (IsHubName(path)) return path;
  const fs::path first = fs::path(path).parent_path();
  const std::string name = (first.filename() / fs::path(path).filename()).string();
  std::error_code error;
  const fs::path around = first.parent_path();
  const bool meant = IsHubName(name) && !fs::exists(first, error) && around.has_relative_path() &&
                     fs::is_directory(around, error);
  return meant ? name : "";
}

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
