// `buttress sft`, `eval`, `logprobs` and `generate`. They need LibTorch, which `buttress` does not
// link, so they replace this process by `learner sft`, `rollout_worker eval` and so on.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>

#include "cli/command.h"
#include "cli/process.h"

namespace buttress {
namespace {

Status ExecProgram(const std::string& program, const std::string& command,
                   const std::vector<std::string>& arguments) {
  const std::string path = SiblingProgram(program);
  std::vector<std::string> words{path, command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
  return NotFound(
      fmt::format("cannot run {}: {}; build the target '{}'", path, std::strerror(errno), program));
}

std::function<Status()> AddForwarded(CLI::App& app, const std::string& program) {
  app.set_help_flag();  // the other program answers --help
  app.prefix_command();
  return [&app, program] { return ExecProgram(program, app.get_name(), app.remaining()); };
}

}  // namespace

std::function<Status()> AddSft(CLI::App& app) { return AddForwarded(app, "learner"); }

std::function<Status()> AddEval(CLI::App& app) { return AddForwarded(app, "rollout_worker"); }

std::function<Status()> AddLogprobs(CLI::App& app) { return AddForwarded(app, "rollout_worker"); }

std::function<Status()> AddGenerate(CLI::App& app) { return AddForwarded(app, "rollout_worker"); }

}  // namespace buttress
