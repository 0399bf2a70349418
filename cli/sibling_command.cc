// `buttress sft` and `buttress eval`: they need LibTorch, which this program does not link, so they
// become the program beside it that does.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>

#include "cli/command.h"
#include "cli/process.h"

namespace buttress {
namespace {

Status Become(const std::string& program, const std::string& command,
              const std::vector<std::string>& arguments) {
  const std::string path = SiblingProgram(program);
  std::vector<std::string> words{path, command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
  return NotFound("cannot run " + path + ": " + std::strerror(errno) + "; build the target '" +
                  program + "'");
}

std::function<Status()> AddSibling(CLI::App& app, const std::string& program) {
  app.set_help_flag();  // --help is the sibling's to answer
  app.prefix_command();
  return [&app, program] { return Become(program, app.get_name(), app.remaining()); };
}

}  // namespace

std::function<Status()> AddSft(CLI::App& app) { return AddSibling(app, "learner"); }

std::function<Status()> AddEval(CLI::App& app) { return AddSibling(app, "rollout_worker"); }

}  // namespace buttress
