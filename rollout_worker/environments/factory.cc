#include "lib/base/text/bounded_json.h"
#include "rollout_worker/environments/environments.h"

namespace buttress {

using nlohmann::ordered_json;

Result<ordered_json> RowOf(const EpisodeTask& task) {
  if (!NestedDeeper(task.row_json)) {
    ordered_json row = ordered_json::parse(task.row_json, nullptr, /*allow_exceptions=*/false);
    if (row.is_object()) return row;
  }
  return InvalidArgument("prompt " + task.prompt_id + ": its row is no JSON object");
}

Result<ordered_json> OpeningOf(const ordered_json& row) {
  const ordered_json prompt = row.value("prompt", ordered_json());
  if (prompt.is_array() && !prompt.empty()) return prompt;
  if (prompt.is_string())
    return ordered_json::array({ordered_json{{"role", "user"}, {"content", prompt}}});
  return InvalidArgument("the row's field \"prompt\" is neither a text nor a list of messages");
}

Result<std::unique_ptr<EnvironmentFactory>> EnvironmentFactory::Create(const RunSettings& run) {
  switch (run.env.name) {
    case BuiltinEnv::kTools:
      return MakeToolsEnvironments(run);
    case BuiltinEnv::kGuess:
      return MakeGuessEnvironments(run);
  }
  return InvalidArgument("run.env.name is unknown");
}

}  // namespace buttress
