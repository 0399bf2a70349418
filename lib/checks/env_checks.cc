#include "lib/checks/env_checks.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "lib/base/os/program_path.h"

namespace buttress {
namespace {

void CheckAgentProgram(const EnvConfig& env, Findings& findings) {
  const std::string key = "run.env.command";
  if (env.command.empty()) return;  // refused by the rules
  const std::string program = FindProgram(env.command[0]);
  if (!program.empty()) return findings.Ok(key, program);
  findings.Error(key, "'" + env.command[0] +
                          "' is not a program on this machine; name its path, or one on PATH");
}

void CheckSearchFile(const EnvConfig& env, Findings& findings) {
  const std::string key = "run.env.search_file";
  if (std::ranges::find(env.tools, "search") == env.tools.end() || env.search_file.empty()) return;
  std::error_code error;
  if (std::filesystem::is_regular_file(env.search_file, error))
    return findings.Ok(key, env.search_file);
  findings.Error(key, env.search_file +
                          " is no file on this machine; name the text file that tool search reads");
}

}  // namespace

void CheckEnvFiles(const EnvConfig& env, Findings& findings) {
  if (env.kind == EnvKind::kExec) CheckAgentProgram(env, findings);
  if (env.kind == EnvKind::kBuiltin && env.name == BuiltinEnv::kTools)
    CheckSearchFile(env, findings);
}

}  // namespace buttress
