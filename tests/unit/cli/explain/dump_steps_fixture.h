// Reads dumps that a test writes into a folder.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/explain/dump_row.h"
#include "cli/explain/step_source.h"
#include "tests/support/temp_dir.h"

namespace buttress {

using Steps = std::vector<std::vector<GroupFacts>>;

class DumpStepsTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(
        std::filesystem::path(folder_.path() + "/" + name).parent_path());
    std::ofstream(folder_.path() + "/" + name) << text;
  }

  Result<Steps> ReadAll() {
    BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<StepSource> source,
                              OpenSteps(folder_.path(), options_));
    Steps steps;
    while (true) {
      BUTTRESS_ASSIGN_OR_RETURN(std::vector<GroupFacts> groups, source->Next());
      remarks_ = source->remarks();
      if (groups.empty()) return steps;
      steps.push_back(std::move(groups));
    }
  }

  std::string ErrorOf() { return ReadAll().status().message(); }

  TempDir folder_;
  StepSourceOptions options_;
  std::vector<std::string> remarks_;
};

}  // namespace buttress
