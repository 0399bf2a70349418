// Rules of run.env, and between it and the rest of the run.
#include <algorithm>
#include <string>

#include "lib/config/rules/rules.h"

namespace buttress {
namespace {

constexpr const char* kToolNames[] = {"calculator", "python", "search"};

void CheckTools(const EnvConfig& env, Rules& rules) {
  rules.Require(!env.tools.empty(), "tools", "name a tool or more: [calculator]");
  for (const std::string& tool : env.tools) {
    rules.RequireOf(std::ranges::find(kToolNames, tool) != std::end(kToolNames), "tools", tool,
                    "expected calculator, python or search");
    rules.RequireOf(std::ranges::count(env.tools, tool) == 1, "tools", tool,
                    "appears twice; name each tool once");
  }
  const bool searches = std::ranges::find(env.tools, "search") != env.tools.end();
  rules.Require(!searches || !env.search_file.empty(), "search_file",
                "name the text file that tool search reads");
}

}  // namespace

void CheckEnv(const RunSettings& run, Rules& rules) {
  const EnvConfig& env = run.env;
  rules.In("run.");
  rules.Require(env.on() || env.credit == EpisodeCredit::kEpisode, "env.credit",
                "needs episodes: set run.env.kind, or leave it out");
  if (!env.on()) return;
  rules.Require(!run.deterministic || env.kind == EnvKind::kBuiltin, "deterministic",
                "needs run.env.kind: builtin; what an agent does is not known to repeat");
  rules.Require(env.credit != EpisodeCredit::kTurn || run.async.old_tokens != OldTokens::kMask,
                "async.old_tokens",
                "masks parts of turns, and run.env.credit: turn compares whole ones; set drop or "
                "train");
  rules.In("run.env.");
  rules.Require(env.kind != EnvKind::kExec || (!env.command.empty() && !env.command[0].empty()),
                "command", "name the program of the agent: [python3, agent.py]");
  const bool http = env.url.starts_with("http://") || env.url.starts_with("https://");
  rules.Require(env.kind != EnvKind::kHttp || http, "url",
                "expected http://host:port/path of the service that runs agents");
  if (env.kind == EnvKind::kBuiltin && env.name == BuiltinEnv::kTools) CheckTools(env, rules);
}

}  // namespace buttress
