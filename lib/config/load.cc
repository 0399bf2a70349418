#include "lib/config/load.h"

#include <absl/strings/str_join.h>
#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/config/bind.h"
#include "lib/config/describe.h"
#include "lib/config/paths.h"
#include "lib/config/sources.h"

namespace buttress {
namespace {

// The keys that `key` may mean; empty for one that begins at one of the two halves, which binding
// checks by its sections.
std::string MeantBy(const std::string& key) {
  if (key.starts_with("run.") || key.starts_with("local.")) return "";
  return SuggestWholeKeys(key);
}

// Sets a.b.c in the tree, so that an override passes the same checks as the file.
Status ApplyOverride(YAML::Node& root, const std::string& override) {
  const std::size_t equals = override.find('=');
  if (equals == std::string::npos || equals == 0) {
    return InvalidArgument("--set " + override +
                           ": expected key=value, for example run.optim.lr=1e-5");
  }
  const std::string key = override.substr(0, equals);
  if (const std::string meant = MeantBy(key); !meant.empty())
    return InvalidArgument("--set " + override + ": unknown key; did you mean " + meant + "?");
  YAML::Node node = root;  // a reference into the tree
  std::size_t begin = 0;
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', begin)) {
    YAML::Node next = node[key.substr(begin, dot - begin)];
    if (next.IsDefined() && !next.IsNull() && !next.IsMap()) {
      return InvalidArgument("--set " + override + ": " + key.substr(0, dot) +
                             " is a value, not a section");
    }
    node.reset(next);
    begin = dot + 1;
  }
  const std::string text = override.substr(equals + 1);
  const YAML::Node value = YAML::Load(text);
  // A copy of a scalar has no line, so that errors name --set and not a line of the file. Nothing
  // is an empty text, and not the default of the setting.
  const bool is_text = value.IsScalar() || text.empty();
  node[key.substr(begin)] = is_text ? YAML::Node(text.empty() ? text : value.Scalar()) : value;
  return OkStatus();
}

template <class T>
std::string PrintSection(T section) {
  YAML::Emitter out;
  YamlPrinter printer(out);
  out << YAML::BeginMap;
  section.Visit(printer);
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

void MakePathsAbsolute(const YAML::Node& root, const std::string& folder) {
  ForEachPath(root, [&folder](const std::string& path) { return AbsolutePath(path, folder); });
}

// The text of run.model.path if it is a name of the hub; else empty.
std::string HubNameIn(const YAML::Node& root) {
  const YAML::Node path =
      root["run"] && root["run"].IsMap() && root["run"]["model"] && root["run"]["model"].IsMap()
          ? root["run"]["model"]["path"]
          : YAML::Node();
  return path.IsDefined() && path.IsScalar() && IsHubName(path.Scalar()) ? path.Scalar() : "";
}

// Gives run.model.path, which became absolute, its text again if that is a name of the hub and
// there is not even the folder of its first word: messages are about what was written.
void KeepHubName(YAML::Node root, const std::string& name, const std::string& folder) {
  if (name.empty()) return;
  const std::string path = AbsolutePath(name, folder);
  YAML::Node value = root["run"]["model"]["path"];
  std::error_code error;
  if (value.Scalar() == path &&
      !std::filesystem::exists(std::filesystem::path(path).parent_path(), error) &&
      !std::filesystem::exists(name, error))
    value = name;
}

// Takes the default of run.steps away. Returns false if it was set; 0 is how it is printed.
bool LeaveStepsToEpochs(const YAML::Node& tree, RunSettings& run) {
  const YAML::Node steps = tree["steps"];
  if (steps.IsDefined() && !steps.IsNull() && run.steps != 0) return false;
  run.steps = 0;
  return true;
}

// Binds without checking ranges; types and names are checked. Relative paths of the text begin at
// `folder` and those of the overrides at the current one; without `folder` they stay relative.
Result<RunConfig> Bind(const std::string& text, const std::string& name,
                       const std::vector<std::string>& overrides,
                       const std::optional<std::string>& folder = {}) {
  YAML::Node root;
  try {
    root = YAML::Load(text);
    if (root.IsNull()) root = YAML::Node(YAML::NodeType::Map);
    if (!root.IsMap()) return InvalidArgument(name + ": expected the sections 'run' and 'local'");
    const std::string in_text = HubNameIn(root);
    if (folder) MakePathsAbsolute(root, *folder);
    for (const std::string& override : overrides)
      BUTTRESS_RETURN_IF_ERROR(ApplyOverride(root, override));
    const std::string in_overrides = HubNameIn(root);
    if (folder) MakePathsAbsolute(root, "");
    if (folder) {
      KeepHubName(root, in_text, *folder);
      KeepHubName(root, in_overrides, "");
    }
    RunConfig config;
    std::vector<std::string> errors = BindYaml(root, name, config);
    for (const std::string& error : MergeVerifiers(config.run)) errors.push_back(error);
    if (config.run.epochs != 0 && !LeaveStepsToEpochs(root["run"], config.run))
      errors.push_back(name +
                       ": run.steps and run.epochs both give the length; remove one of them");
    if (!errors.empty()) return InvalidArgument(absl::StrJoin(errors, "\n"));
    if (folder) config.local.out = AbsolutePath(config.local.out);  // the default is relative
    return config;
  } catch (const YAML::Exception& e) {
    return InvalidArgument(name + ":" + std::to_string(e.mark.line + 1) + ": not YAML: " + e.msg);
  }
}

// kInvalidArgument for a setting outside `section`, which the command does not read.
Status CheckSection(const std::vector<std::string>& overrides, const std::string& section) {
  for (const std::string& override : overrides) {
    if (!override.starts_with(section + "."))
      return InvalidArgument("--set " + override + ": expected a setting of " + section +
                             "; no other is read here");
  }
  return OkStatus();
}

}  // namespace

Result<RunConfig> ParseRunConfig(const std::string& text, const std::string& name,
                                 const std::vector<std::string>& overrides) {
  BUTTRESS_ASSIGN_OR_RETURN(RunConfig config, Bind(text, name, overrides));
  BUTTRESS_RETURN_IF_ERROR(ValidateRunConfig(config).Annotate(name));
  return config;
}

RunConfig WithFileNames(const RunConfig& config) {
  const YAML::Node root = YAML::Load(PrintRunConfig(config));
  ForEachPath(root, FileNameOf);
  RunConfig named;
  const std::vector<std::string> errors = BindYaml(root, "", named);
  BUTTRESS_CHECK(errors.empty(), absl::StrJoin(errors, "\n"));
  return named;
}

Result<AlgorithmConfig> ParseAlgorithm(const std::vector<std::string>& overrides) {
  BUTTRESS_RETURN_IF_ERROR(CheckSection(overrides, "run.algorithm"));
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config, Bind("", "--set", overrides));
  BUTTRESS_RETURN_IF_ERROR(ValidateAlgorithmConfig(config.run.algorithm));
  return config.run.algorithm;
}

Result<RewardConfig> ParseReward(const std::vector<std::string>& overrides) {
  BUTTRESS_RETURN_IF_ERROR(CheckSection(overrides, "run.reward"));
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config, Bind("", "--set", overrides));
  BUTTRESS_RETURN_IF_ERROR(ValidateRewardConfig(config.run.reward));
  return config.run.reward;
}

Result<RunConfig> LoadRunConfig(const std::string& path,
                                const std::vector<std::string>& overrides) {
  constexpr std::int64_t kMaxConfigBytes = 1 << 20;
  auto text = ReadFile(path, kMaxConfigBytes);
  if (!text.ok()) return InvalidArgument("--config: " + text.status().message());
  const std::string folder = std::filesystem::path(path).parent_path().string();
  BUTTRESS_ASSIGN_OR_RETURN(RunConfig config, Bind(*text, path, overrides, folder));
  BUTTRESS_RETURN_IF_ERROR(ValidateRunConfig(config).Annotate(path));
  return config;
}

std::string PrintRunConfig(const RunConfig& config) {
  RunConfig printed = config;
  if (printed.run.epochs > 0) printed.run.steps = 0;
  return PrintSection(printed);
}

std::string RunConfigHash(const RunConfig& config) {
  return ToHex(Sha256Of(PrintSection(WithFileNames(config).run)));
}

CLI::Option* AddConfigFile(CLI::App& app, std::string& path) {
  return app.add_option("file,--config", path, "YAML file of the run");
}

void ConfigFlags::AddTo(CLI::App& app) {
  AddConfigFile(app, path);
  app.add_option("--set", overrides, "override a setting: run.optim.lr=1e-5 (can be repeated)")
      ->allow_extra_args(false);
  app.add_flag("--print-config", print, "print the whole configuration and exit");
  app.add_flag("--check", check,
               "check this program's part of the run, and exit with 2 if it cannot start");
  app.add_flag("--json", json, "--check prints JSON");
  app.add_option_function<std::string>(
         "--describe-config",
         [this](const std::string& words) {
           describe = true;
           described = words;
         },
         "print every setting, its default and its meaning, and exit; with WORDS, only those with "
         "each of them in the key or the meaning, also as YAML")
      ->type_name("[WORDS]")
      ->expected(0, 1);
}

Result<RunConfig> LoadByFlags(const ConfigFlags& flags, bool* done) {
  *done = false;
  if (flags.describe) {
    std::string text = DescribeRunConfig();
    if (!flags.described.empty()) {
      BUTTRESS_ASSIGN_OR_RETURN(text, DescribeSettings(flags.described));
    }
    std::fputs(text.c_str(), stdout);
    *done = true;
    return RunConfig{};
  }
  if (flags.path.empty()) return InvalidArgument("name the run's YAML file: FILE or --config FILE");
  BUTTRESS_ASSIGN_OR_RETURN(RunConfig config, LoadRunConfig(flags.path, flags.overrides));
  if (flags.print) std::fputs(PrintRunConfig(config).c_str(), stdout);
  *done = flags.print;
  return config;
}

}  // namespace buttress
