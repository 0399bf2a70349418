#include "lib/rpc/coordinator_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/address.h"
#include "lib/base/file.h"
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

TEST(ChannelTest, ABoundAddressIsReachableFromOutside) {
  EXPECT_EQ(BoundAddress("127.0.0.1:0", 4000), "127.0.0.1:4000");
  EXPECT_THAT(BoundAddress("0.0.0.0:0", 4000),
              testing::AllOf(testing::EndsWith(":4000"), testing::Not(HasSubstr("0.0.0.0"))));
}

}  // namespace
}  // namespace buttress
