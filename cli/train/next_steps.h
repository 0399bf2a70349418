// The end of the closing text of `buttress launch`: where to look, and which commands come next.
#pragma once

#include <string>
#include <vector>

#include "cli/checks/run_checks.h"
#include "lib/config/run_config.h"

namespace buttress {

// A launch as the user typed it.
struct TypedLaunch {
  RunFile file;
  std::vector<std::string>
      flags;               // further arguments that another launch needs, such as "--no-eval"
  bool on_hosts = false;   // by --hosts
  std::int64_t seeds = 0;  // by --seeds; 0: one run
};

// Returns lines that name the page of the finished run `config` and, after a single run on this
// machine, commands that repeat it with other seeds and with another estimator. They keep the
// settings of the user.
std::string WhatToDoNext(const TypedLaunch& launch, const RunConfig& config);

}  // namespace buttress
