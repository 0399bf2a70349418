// The flags that the commands on a model folder and a file have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/policy/transformer.h"

namespace buttress {

struct ModelFlags {
  std::string model;
  std::string file;
  ModelDtype dtype = ModelDtype::kFloat32;
  ComputeDevice device = ComputeDevice::kCpu;
  std::int64_t gpu = -1;  // chosen by the launcher of the process
  std::int64_t threads = 0;
  bool json = false;

  // `rows` describes the rows of FILE, `columns` what is printed without --json.
  void AddTo(CLI::App& app, const std::string& rows, const std::string& columns);

  // Loads the model and sets the number of torch threads.
  Result<std::unique_ptr<Transformer>> Load() const;
};

// Parses the command line, runs `action`, prints its error and returns the exit code.
int RunCommand(CLI::App& app, int argc, char** argv, const std::function<Status()>& action);

}  // namespace buttress
