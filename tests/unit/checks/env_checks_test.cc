#include "lib/checks/env_checks.h"

#include <gmock/gmock.h>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const EnvConfig& env) {
  Findings findings;
  CheckEnvFiles(env, findings);
  return findings.Verdict().message();
}

TEST(EnvChecksTest, AnAgentIsAProgramThatCanBeStarted) {
  const TempDir dir;
  const std::string file = JoinPath(dir.path(), "agent.txt");
  ASSERT_TRUE(WriteFileAtomic(file, "not executable").ok());
  EnvConfig env;
  env.kind = EnvKind::kExec;
  env.command = {"sh", "agent.sh"};
  EXPECT_EQ(ErrorOf(env), "");
  for (const std::string& program : {file, std::string("no-such-agent")}) {
    env.command[0] = program;
    EXPECT_THAT(ErrorOf(env), HasSubstr("'" + program + "' is not a program"));
  }
  env.kind = EnvKind::kHttp;
  EXPECT_EQ(ErrorOf(env), "") << "which is not started here";
}

TEST(EnvChecksTest, TheSearchedFileIsThereWhereTheToolIsUsed) {
  const TempDir dir;
  EnvConfig env;
  env.kind = EnvKind::kBuiltin;
  env.tools = {"calculator", "search"};
  env.search_file = JoinPath(dir.path(), "facts.txt");
  EXPECT_THAT(ErrorOf(env), HasSubstr("facts.txt is no file"));
  env.tools = {"calculator"};
  EXPECT_EQ(ErrorOf(env), "");
  env.tools = {"search"};
  ASSERT_TRUE(WriteFileAtomic(env.search_file, "A fact.\n").ok());
  EXPECT_EQ(ErrorOf(env), "");
}

}  // namespace
}  // namespace buttress
