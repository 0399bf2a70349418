// `buttress metrics`: what the learner measures at every step.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "lib/measure/measurements.h"

namespace buttress {

std::function<Status()> AddMetrics(CLI::App& app) {
  const auto markdown = std::make_shared<bool>(false);
  app.add_flag("--markdown", *markdown, "print the table of docs/metrics.md");
  return [markdown] {
    std::fputs((*markdown ? MeasurementsMarkdown() : MeasurementsText()).c_str(), stdout);
    return OkStatus();
  };
}

}  // namespace buttress
