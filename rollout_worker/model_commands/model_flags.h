// The commands of a model folder, and the flags that they have in common: `buttress logprobs`,
// `buttress generate` and `buttress merge` run them as `rollout_worker logprobs` and so on.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/policy/transformer.h"

namespace buttress {

struct ModelFlags {
  std::string model;
  std::string adapter;  // PEFT folder; empty: none
  std::string file;
  ModelDtype dtype = ModelDtype::kFloat32;
  ComputeDevice device = ComputeDevice::kCpu;
  std::int64_t gpu = -1;  // chosen by the launcher of the process
  std::int64_t threads = 0;
  bool json = false;

  // `rows` describes the rows of FILE, `columns` what is printed without --json.
  void AddTo(CLI::App& app, const std::string& rows, const std::string& columns);

  // Loads the model, with the adapters if there are any, and sets the number of torch threads.
  Result<std::unique_ptr<Transformer>> Load() const;
};

// A command line whose first word is `name`. `run` returns the exit code.
struct ModelCommand {
  std::string_view name;
  int (*run)(int argc, char** argv);
};

int RunLogprobs(int argc, char** argv);
int RunGenerate(int argc, char** argv);
int RunMerge(int argc, char** argv);

}  // namespace buttress
