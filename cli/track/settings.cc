#include "cli/track/settings.h"

#include <yaml-cpp/yaml.h>

#include "lib/config/load.h"

namespace buttress {
namespace {

void AddSettings(const YAML::Node& node, const std::string& path,
                 std::map<std::string, std::string>& settings) {
  if (!node.IsMap()) {
    YAML::Emitter text;
    text << YAML::Flow << node;
    settings[path] = node.IsScalar() ? node.Scalar() : text.c_str();
    return;
  }
  for (const auto& entry : node)
    AddSettings(entry.second, path + "." + entry.first.Scalar(), settings);
}

}  // namespace

std::map<std::string, std::string> SettingsOf(const RunConfig& config) {
  std::map<std::string, std::string> settings;
  AddSettings(YAML::Load(PrintRunConfig(config))["run"], "run", settings);
  return settings;
}

}  // namespace buttress
