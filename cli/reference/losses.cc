// `buttress losses`: what run.algorithm.loss can be.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "lib/rl/loss/loss_table.h"

namespace buttress {

std::function<Status()> AddLosses(CLI::App& app) {
  const auto markdown = std::make_shared<bool>(false);
  app.add_flag("--markdown", *markdown, "the tables of docs/losses.md");
  return [markdown] {
    std::fputs((*markdown ? LossTables() : LossList()).c_str(), stdout);
    return OkStatus();
  };
}

}  // namespace buttress
