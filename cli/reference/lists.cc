// `buttress losses` and `buttress metrics`: what run.algorithm.loss can be, and what the learner
// measures at every step.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "lib/measure/measurements.h"
#include "lib/rl/loss/loss_table.h"

namespace buttress {
namespace {

std::function<Status()> AddList(CLI::App& app, std::string (*text)(), std::string (*markdown)()) {
  const auto chosen = std::make_shared<bool>(false);
  app.add_flag("--markdown", *chosen, "print the tables of docs/");
  return [chosen, text, markdown] {
    std::fputs((*chosen ? markdown() : text()).c_str(), stdout);
    return OkStatus();
  };
}

}  // namespace

std::function<Status()> AddLosses(CLI::App& app) { return AddList(app, LossList, LossTables); }

std::function<Status()> AddMetrics(CLI::App& app) {
  return AddList(app, MeasurementsText, MeasurementsMarkdown);
}

}  // namespace buttress
