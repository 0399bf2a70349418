#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/checks/run_checks.h"
#include "lib/base/os/file.h"
#include "lib/checks/machine_checks.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// An mpirun that is a shell script.
class ProgramRunsTest : public ::testing::Test {
 protected:
  Finding RunWith(const std::string& script) {
    config_.local.launch.mpirun = dir_.path() + "/mpirun";
    EXPECT_TRUE(WriteFileAtomic(config_.local.launch.mpirun, "#!/bin/sh\n" + script + "\n").ok());
    std::filesystem::permissions(config_.local.launch.mpirun, std::filesystem::perms::owner_all);
    Findings findings;
    CheckLearnerJob(config_, {"--config", "run.yaml"}, {"--host", "a:1,b:2"}, findings);
    EXPECT_EQ(findings.list().size(), 1u);
    return findings.list().front();
  }

  TempDir dir_;
  RunConfig config_;
};

TEST_F(ProgramRunsTest, AMissingMpirunIsNamed) {
  config_.local.launch.mpirun = "no_such_mpirun";
  Findings findings;
  CheckPrograms(config_.local, findings);
  EXPECT_THAT(findings.Verdict().message(), HasSubstr("local.launch.mpirun: no_such_mpirun"));
}

TEST_F(ProgramRunsTest, MpirunIsCalledAsLaunchCallsIt) {
  config_.local.launch.learner_ranks = 3;
  config_.local.launch.mpirun_args = {"--hostfile", "hosts"};
  const Finding found = RunWith("echo \"[error] $*\" && exit 3");
  EXPECT_EQ(found.severity, Severity::kError);
  EXPECT_THAT(found.text, AllOf(HasSubstr("-np 3 "), HasSubstr("--host a:1,b:2 --hostfile hosts "),
                                HasSubstr("learner --expect-world 3 --check --config run.yaml"),
                                HasSubstr("end with 3")));
}

TEST_F(ProgramRunsTest, RanksThatStartAreFine) {
  EXPECT_EQ(RunWith("exit 0").severity, Severity::kOk);
}

}  // namespace
}  // namespace buttress
