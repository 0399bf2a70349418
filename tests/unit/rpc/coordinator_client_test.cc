#include "lib/rpc/coordinator_client.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "lib/base/net/address.h"
#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using testing::HasSubstr;

TEST(CoordinatorClientTest, GivesUpWithAdviceWithoutACoordinator) {
  const TempDir folder;
  CoordinatorClient client({"", JoinPath(folder.path(), "coordinator.address"), 1});
  const Status status = client.GetRunStatus().status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(),
              testing::AllOf(HasSubstr("gave up"), HasSubstr("coordinator.address"),
                             HasSubstr("local.out")));
}

TEST(CoordinatorClientTest, NamesAnAddressThatRefusesConnections) {
  CoordinatorClient client({"127.0.0.1:1", "", 1});
  EXPECT_THAT(client.GetRunStatus().status().message(), HasSubstr("127.0.0.1:1"));
}

TEST(CoordinatorClientTest, TakesTheAddressFromAdvertiseOrFromTheRunFolder) {
  LocalSettings local;
  local.out = "runs/x";
  EXPECT_EQ(CoordinatorClientOptionsFrom(local).address, "");
  EXPECT_EQ(CoordinatorClientOptionsFrom(local).address_file, "runs/x/coordinator.address");
  local.coordinator.advertise = "head:7000";
  EXPECT_EQ(CoordinatorClientOptionsFrom(local).address, "head:7000");
}

TEST(CoordinatorClientTest, AStartThatAnotherHasFollowedIsNotAcceptedAgain) {
  const CoordinatorClientOptions options;
  const CoordinatorClientOptions of_the_same_process = options;
  EXPECT_EQ(options.answered->Get(), "");
  EXPECT_TRUE(options.answered->Accept("run/old"));
  EXPECT_TRUE(options.answered->Accept("run/old"));
  EXPECT_TRUE(of_the_same_process.answered->Accept("run/new"));
  EXPECT_FALSE(options.answered->Accept("run/old"));
  EXPECT_EQ(options.answered->Get(), "run/new");
}

// Cancels its first calls, as a coordinator does that ends.
class EndingCoordinator : public v1::Coordinator::Service {
 public:
  grpc::Status GetRunStatus(grpc::ServerContext*, const v1::GetRunStatusRequest*,
                            v1::GetRunStatusResponse* response) override {
    if (++calls <= 2) return grpc::Status::CANCELLED;
    response->set_run_name("r");
    return grpc::Status::OK;
  }

  std::atomic<int> calls = 0;
};

TEST(CoordinatorClientTest, ACallThatAnEndingCoordinatorCancelsIsRepeated) {
  EndingCoordinator service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  CoordinatorClient client({"127.0.0.1:" + std::to_string(port), "", 20000});
  const auto status = client.GetRunStatus();
  ASSERT_TRUE(status.ok()) << status.status().ToString();
  EXPECT_EQ(status->run_name(), "r");
  EXPECT_EQ(service.calls, 3);
}

TEST(ChannelTest, ABoundAddressIsReachableFromOutside) {
  EXPECT_EQ(BoundAddress("127.0.0.1:0", 4000), "127.0.0.1:4000");
  EXPECT_THAT(BoundAddress("0.0.0.0:0", 4000),
              testing::AllOf(testing::EndsWith(":4000"), testing::Not(HasSubstr("0.0.0.0"))));
}

}  // namespace
}  // namespace buttress
