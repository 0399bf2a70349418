#include "cli/checks/machine_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/checks/port.h"
#include "lib/base/file.h"
#include "tests/support/made_certificates.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

void ServeModels(const ScriptedRequest& request, ScriptedConnection& connection) {
  const bool known = request.headers.contains("authorization") &&
                     request.headers.at("authorization") == "Bearer the key";
  connection.Reply(known ? 200 : 401, known ? R"({"data": [{"id": "policy"}]})" : "{}");
}

std::string TextOfErrors(const Findings& findings) { return findings.Verdict().message(); }

TEST(MachineChecksTest, APortInUseOrGivenTwiceIsNamed) {
  const ScriptedHttpServer server(ServeModels);
  const std::string used = server.url().substr(std::string("http://").size());
  EXPECT_EQ(TryListen(used).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(TryListen("127.0.0.1:0").ok());
  EXPECT_EQ(TryListen("192.0.2.1:7").code(), StatusCode::kInvalidArgument);

  LocalSettings local;
  local.coordinator.listen = used;
  local.worker.metrics = local.learner.metrics = "127.0.0.2:" + used.substr(used.rfind(':') + 1);
  Findings findings;
  CheckPorts(local, findings);
  EXPECT_THAT(TextOfErrors(findings),
              HasSubstr("local.coordinator.listen: cannot listen on " + used));
  EXPECT_THAT(TextOfErrors(findings), HasSubstr("is also local.worker.metrics"));
}

TEST(MachineChecksTest, TheDiskMustHoldTheModelAndTheFolderMustBeOne) {
  const TempDir dir;
  RunConfig config;
  config.local.out = dir.path() + "/new/run";
  Findings fits, too_large, no_folder;
  CheckDisk(config, 1000, fits);
  EXPECT_EQ(TextOfErrors(fits), "");
  CheckDisk(config, std::int64_t{1} << 50, too_large);
  EXPECT_THAT(TextOfErrors(too_large), HasSubstr("GiB needed for two checkpoints"));
  ASSERT_TRUE(WriteFileAtomic(dir.path() + "/new", "").ok());
  CheckDisk(config, 1000, no_folder);
  EXPECT_THAT(TextOfErrors(no_folder), HasSubstr("/new is no folder"));
}

TEST(MachineChecksTest, AMissingMpirunIsNamed) {
  LocalSettings local;
  local.launch.mpirun = "no_such_mpirun";
  Findings findings;
  CheckPrograms(local, findings);
  EXPECT_THAT(TextOfErrors(findings), HasSubstr("local.launch.mpirun: no_such_mpirun"));
}

TEST(MachineChecksTest, CertificatesAndTokensMustBeThereAndMatch) {
  const MadeCertificates made;
  LocalSettings local;
  local.security = made.Of();
  Findings whole, without_token;
  CheckCredentials(local, whole);
  ASSERT_EQ(whole.list().size(), 1u);
  EXPECT_EQ(whole.list()[0].severity, Severity::kOk);
  std::filesystem::remove(local.security.tokens + "/worker.token");
  CheckCredentials(local, without_token);
  EXPECT_THAT(TextOfErrors(without_token), HasSubstr("worker.token"));
}

TEST(MachineChecksTest, AServerMustAnswerAcceptTheKeyAndServeTheModel) {
  const ScriptedHttpServer server(ServeModels);
  const TempDir dir;
  VllmConfig vllm;
  vllm.servers = {server.url(), "http://127.0.0.1:1"};
  Findings without_key;
  CheckServers(vllm, without_key);
  EXPECT_THAT(TextOfErrors(without_key), HasSubstr("refuses the key"));
  EXPECT_THAT(TextOfErrors(without_key), HasSubstr("http://127.0.0.1:1 does not answer"));

  vllm.servers.pop_back();
  vllm.api_key_file = dir.path() + "/key";
  ASSERT_TRUE(WriteFileAtomic(vllm.api_key_file, "the key\n").ok());
  Findings answered, another;
  CheckServers(vllm, answered);
  EXPECT_EQ(TextOfErrors(answered), "");
  vllm.model = "judge";
  CheckServers(vllm, another);
  EXPECT_THAT(TextOfErrors(another), HasSubstr("does not serve judge; it serves policy"));
}

}  // namespace
}  // namespace buttress
