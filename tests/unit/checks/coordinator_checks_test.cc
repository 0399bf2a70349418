#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "lib/base/os/file.h"
#include "lib/checks/peer_checks.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/rpc_server.h"
#include "tests/support/runs/made_certificates.h"
#include "tests/support/secret_file.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

class Service : public v1::Coordinator::Service {
  grpc::Status GetRunStatus(grpc::ServerContext*, const v1::GetRunStatusRequest*,
                            v1::GetRunStatusResponse*) override {
    return grpc::Status::OK;
  }
};

// A coordinator with certificates and tokens.
class CoordinatorChecksTest : public ::testing::Test {
 protected:
  CoordinatorChecksTest() {
    server_ = *RpcServer::Start("127.0.0.1:0", made_.Load(Program::kCoordinator), {&service_});
    config_.run.data.prompts = "prompts.jsonl";
    config_.run.model.path = "model";
    config_.local.out = dir_.path();
    config_.local.security = made_.Of();
    config_.local.coordinator.advertise = server_->address();
  }

  Finding Check(Program program) const {
    Findings findings;
    CheckCoordinator(config_, program, findings);
    EXPECT_EQ(findings.list().size(), 1u);
    return findings.list().empty() ? Finding{} : findings.list().front();
  }

  TempDir dir_;
  MadeCertificates made_;
  Service service_;
  std::unique_ptr<RpcServer> server_;
  RunConfig config_;
};

TEST_F(CoordinatorChecksTest, EveryRoleIsKnown) {
  for (const Program program : {Program::kWorker, Program::kLearner, Program::kStatus})
    EXPECT_THAT(Check(program).text, HasSubstr("certificates and tokens agree"));
}

TEST_F(CoordinatorChecksTest, AnotherTokenIsRefused) {
  const MadeCertificates copy(MadeCertificates::CopyOf{made_.folder()});
  ASSERT_TRUE(WriteSecret(copy.Path("worker.token"), std::string(32, 'x')).ok());
  config_.local.security = copy.Of();
  const Finding refused = Check(Program::kWorker);
  EXPECT_EQ(refused.severity, Severity::kError);
  EXPECT_THAT(refused.text, HasSubstr("refuses the token"));
}

TEST_F(CoordinatorChecksTest, BothSidesNeedTheSameAuthorityOrNone) {
  const MadeCertificates others;
  config_.local.security = others.Of();
  EXPECT_THAT(Check(Program::kWorker).text, HasSubstr("takes connections and no calls"));
  config_.local.security = {};
  EXPECT_EQ(Check(Program::kWorker).severity, Severity::kError);
}

TEST_F(CoordinatorChecksTest, ACoordinatorThatIsNotUpIsNoError) {
  config_.local.coordinator.advertise = "127.0.0.1:1";
  EXPECT_THAT(Check(Program::kWorker).text, HasSubstr("skipped"));
  config_.local.coordinator.advertise = "";
  EXPECT_THAT(Check(Program::kWorker).text, HasSubstr("skipped"));
}

TEST_F(CoordinatorChecksTest, AWorkerThatSharesTheFolderSeesWhatTheCoordinatorWrote) {
  const auto severity = [this] {
    Findings findings;
    CheckSharedFolder(config_, findings);
    return findings.list().empty() ? Severity::kOk : findings.list().front().severity;
  };
  EXPECT_EQ(severity(), Severity::kError);
  config_.local.worker.weights = WeightTransportKind::kGrpc;
  EXPECT_EQ(severity(), Severity::kOk);
  config_.local.worker.weights = WeightTransportKind::kShared;
  const std::string stored = StoredConfigPath(config_.local.out);
  RunConfig other = config_;
  other.run.seed = 7;
  ASSERT_TRUE(WriteFileAtomic(stored, PrintRunConfig(other)).ok());
  EXPECT_EQ(severity(), Severity::kWarning);
  other = config_;
  other.local.worker.id = "of-another-machine";
  ASSERT_TRUE(WriteFileAtomic(stored, PrintRunConfig(other)).ok());
  EXPECT_EQ(severity(), Severity::kOk);
}

}  // namespace
}  // namespace buttress
