// Commands that show what a model folder computes: `buttress logprobs` and `buttress generate` run
// them as `rollout_worker logprobs` and `rollout_worker generate`.
#pragma once

#include <string_view>

namespace buttress {

// A command line whose first word is `name`. `run` returns the exit code.
struct ModelCommand {
  std::string_view name;
  int (*run)(int argc, char** argv);
};

int RunLogprobs(int argc, char** argv);
int RunGenerate(int argc, char** argv);

}  // namespace buttress
