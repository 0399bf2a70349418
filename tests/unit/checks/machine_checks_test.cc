#include "lib/checks/machine_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/os/file.h"
#include "lib/checks/peer_checks.h"
#include "tests/support/fakes/scripted_http_server.h"
#include "tests/support/runs/made_certificates.h"
#include "tests/support/secret_file.h"
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
  std::vector<ListenSetting> listeners = CoordinatorListeners(local);
  for (const auto& more : {WorkerListeners(local), LearnerListeners(local, 2, true)})
    listeners.insert(listeners.end(), more.begin(), more.end());
  CheckPorts(listeners, findings);
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
  EXPECT_THAT(fits.list().back().text, HasSubstr(" MiB needed"));
  CheckDisk(config, std::int64_t{1} << 50, too_large);
  EXPECT_THAT(TextOfErrors(too_large), HasSubstr("GiB needed for two checkpoints"));
  config.run.checkpoint_interval = std::int64_t{1} << 40;  // payloads of no more than all steps
  Findings few_steps;
  CheckDisk(config, 1000, few_steps);
  EXPECT_EQ(TextOfErrors(few_steps), "");
  ASSERT_TRUE(WriteFileAtomic(dir.path() + "/new", "").ok());
  CheckDisk(config, 1000, no_folder);
  EXPECT_THAT(TextOfErrors(no_folder), HasSubstr("/new is no folder"));
}

TEST(MachineChecksTest, RanksOfAMachineHavePortsInARow) {
  LocalSettings local;
  local.learner.metrics = "127.0.0.1:9400";
  std::vector<std::string> addresses;
  for (const ListenSetting& listener : LearnerListeners(local, 2, /*is_first=*/false))
    addresses.push_back(listener.address);
  EXPECT_EQ(addresses, (std::vector<std::string>{"127.0.0.1:9400", "127.0.0.1:9401"}));
  local.learner.metrics = "off";
  EXPECT_EQ(LearnerListeners(local, 2, false).back().address, "off");
  Findings findings;
  CheckPorts(LearnerListeners(local, 2, true), findings);
  EXPECT_EQ(TextOfErrors(findings), "");
}

TEST(MachineChecksTest, CertificatesAndTokensMustBeThereAndMatch) {
  const MadeCertificates made;
  LocalSettings local;
  local.security = made.Of();
  Findings whole, without_token;
  CheckCredentials(local, Program::kCoordinator, whole);
  ASSERT_EQ(whole.list().size(), 1u);
  EXPECT_EQ(whole.list()[0].severity, Severity::kOk);
  std::filesystem::remove(local.security.tokens + "/worker.token");
  CheckCredentials(local, Program::kCoordinator, without_token);
  EXPECT_THAT(TextOfErrors(without_token), HasSubstr("worker.token"));
}

TEST(MachineChecksTest, ACertificateMustNameTheAdvertisedAddress) {
  const MadeCertificates made("here,10.0.0.5");
  LocalSettings local;
  local.security = made.Of();
  local.worker.advertise = "10.0.0.5:7002";
  local.learner.advertise = "elsewhere:7001";
  Findings worker, learner;
  CheckCredentials(local, Program::kWorker, worker);
  EXPECT_EQ(TextOfErrors(worker), "");
  CheckCredentials(local, Program::kLearner, learner);
  EXPECT_THAT(TextOfErrors(learner), HasSubstr("the certificate does not name elsewhere"));
  local.security.name = "here";  // by which peers know every machine
  Findings named;
  CheckCredentials(local, Program::kLearner, named);
  EXPECT_EQ(TextOfErrors(named), "");
}

TEST(MachineChecksTest, ACertificateThatExpiresSoonIsAWarning) {
  const MadeCertificates made("here", "DAYS=3");
  LocalSettings local;
  local.security = made.Of();
  Findings findings;
  CheckCredentials(local, Program::kWorker, findings);
  ASSERT_EQ(findings.list().size(), 1u);
  EXPECT_EQ(findings.list()[0].severity, Severity::kWarning);
  EXPECT_THAT(findings.list()[0].text, HasSubstr("valid for"));
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
  ASSERT_TRUE(WriteSecret(vllm.api_key_file, "the key\n").ok());
  Findings answered, another;
  CheckServers(vllm, answered);
  EXPECT_EQ(TextOfErrors(answered), "");
  vllm.model = "judge";
  CheckServers(vllm, another);
  EXPECT_THAT(TextOfErrors(another), HasSubstr("does not serve judge; it serves policy"));
}

// Its queue of connections is full: the handshake does not end.
TEST(MachineChecksTest, AServerHasConnectMsToTakeAConnection) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const int server = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(server, any, size), 0);
  ASSERT_EQ(::listen(server, 0), 0);
  ASSERT_EQ(::getsockname(server, any, &size), 0);
  std::vector<int> queued(4);
  for (int& client : queued) {
    client = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ::connect(client, any, size);
  }
  VllmConfig vllm;
  vllm.servers = {"http://127.0.0.1:" + std::to_string(ntohs(address.sin_port))};
  vllm.connect_ms = 50;
  Findings findings;
  CheckServers(vllm, findings);
  EXPECT_THAT(TextOfErrors(findings), HasSubstr("(connecting, 50 ms)"));
  for (const int client : queued) ::close(client);
  ::close(server);
}

}  // namespace
}  // namespace buttress
