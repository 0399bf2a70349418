#include "lib/config/paths.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "lib/config/reward_text.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

using Replacement = std::function<std::string(const std::string&)>;

enum class PathKind : std::uint8_t {
  kPath,      // one, or a list of them
  kProgram,   // a path if it contains a slash; else found by PATH
  kVerifier,  // contains paths: math + python:FILE:FUNCTION
};

struct PathSetting {
  std::string_view key;  // "*" stands for each name
  PathKind kind = PathKind::kPath;
};

constexpr PathSetting kPathSettings[] = {
    {"run.data.prompts"},
    {"run.data.held_out"},
    {"run.data.sources.*.prompts"},
    {"run.data.sources.*.verifier", PathKind::kVerifier},
    {"run.model.path"},
    {"run.lora.adapter"},
    {"run.env.search_file"},
    {"run.reward.verifier", PathKind::kVerifier},
    {"run.reward.by_source.*", PathKind::kVerifier},
    {"run.reward.second.verifier", PathKind::kVerifier},
    {"run.reward.code.read_only"},
    {"run.reward.python.interpreter", PathKind::kProgram},
    {"local.track.interpreter", PathKind::kProgram},
    {"run.reward.http.token_file"},
    {"local.out"},
    {"local.security.certificate"},
    {"local.security.key"},
    {"local.security.ca"},
    {"local.security.tokens"},
    {"local.worker.vllm.api_key_file"},
    {"local.worker.vllm.launch.binary", PathKind::kProgram},
    {"local.worker.weights_dir"},
    {"local.launch.mpirun", PathKind::kProgram},
};

std::string ReplaceInVerifier(const std::string& text, const Replacement& f) {
  std::string result;
  std::string_view rest = text;
  while (!rest.empty()) {
    if (const std::size_t bytes = PythonNameBytes(rest); bytes > 0) {
      const std::size_t colon = rest.substr(0, bytes).rfind(':');
      result += kPythonPrefix;
      result += f(std::string(rest.substr(kPythonPrefix.size(), colon - kPythonPrefix.size())));
      result += rest.substr(colon, bytes - colon);
      rest.remove_prefix(bytes);
    }
    // A name begins behind a space, a star, or at the begin.
    const std::size_t next = std::min(rest.find_first_of(" *"), rest.size());
    const std::size_t word = std::min(next + 1, rest.size());
    result += rest.substr(0, word);
    rest.remove_prefix(word);
  }
  return result;
}

std::string Replaced(const std::string& text, PathKind kind, const Replacement& f) {
  if (kind == PathKind::kVerifier) return ReplaceInVerifier(text, f);
  const bool is_path = kind == PathKind::kPath || text.find('/') != std::string::npos;
  return text.empty() || !is_path ? text : f(text);
}

// Replaces the values that `key`, the rest of a setting's, names below `node`.
void Visit(YAML::Node node, std::string_view key, PathKind kind, const Replacement& f) {
  if (key.empty()) {
    if (node.IsScalar()) {
      node = Replaced(node.Scalar(), kind, f);
    } else if (node.IsSequence()) {
      for (YAML::Node item : node) Visit(item, key, kind, f);
    }
    return;
  }
  if (!node.IsMap()) return;
  const std::size_t dot = key.find('.');
  const std::string_view name = key.substr(0, dot);
  const std::string_view rest = dot == std::string_view::npos ? "" : key.substr(dot + 1);
  for (const auto& item : node) {
    if (name == "*" || (item.first.IsScalar() && item.first.Scalar() == name))
      Visit(item.second, rest, kind, f);
  }
}

// No shell expands the "~" of a file, nor that of --set run.model.path=~/model.
std::string WithHome(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || (path != "~" && !path.starts_with("~/"))) return path;
  return home + path.substr(1);
}

}  // namespace

void ForEachPath(const YAML::Node& root, const Replacement& f) {
  for (const auto& [key, kind] : kPathSettings) Visit(root, key, kind, f);
}

std::string AbsolutePath(const std::string& path, const std::string& folder) {
  const fs::path base = fs::absolute(folder.empty() ? "." : folder);
  const fs::path absolute = (base / WithHome(path)).lexically_normal();
  std::string text = absolute.string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

bool IsHubName(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) return false;
  if (text.front() == '.' || text.find('/', slash + 1) != std::string::npos) return false;
  return std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/';
  });
}

std::string FileNameOf(const std::string& path) {
  return fs::path(AbsolutePath(path, "/")).filename().string();
}

std::string WithFileNames(const std::string& verifier) {
  return ReplaceInVerifier(verifier, FileNameOf);
}

}  // namespace buttress
