#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/fleet/fleet.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

std::string FaultOf(const std::string& text) {
  const auto hosts = ParseHosts(text, "hosts");
  return hosts.ok() ? "" : hosts.status().message();
}

TEST(HostsFileTest, ReadsAMachineALine) {
  const auto hosts = ParseHosts(
      "# the cluster\n\nnode1 coordinator ranks=1 address=10.0.0.1  # head\n"
      "node3 ranks=2\nadmin@node2 workers=3\n",
      "hosts");
  ASSERT_TRUE(hosts.ok()) << hosts.status().ToString();
  ASSERT_EQ(hosts->size(), 3U);
  const Host& head = hosts->front();
  EXPECT_EQ(head.name, "node1");
  EXPECT_EQ(head.address, "10.0.0.1");
  EXPECT_TRUE(head.coordinator);
  EXPECT_EQ(head.ranks, 1);
  EXPECT_EQ(head.workers, 0);
  const Host& other = hosts->back();
  EXPECT_EQ(other.name, "admin@node2");
  EXPECT_EQ(other.address, "node2") << "without the user";
  EXPECT_FALSE(other.coordinator);
  EXPECT_EQ(other.ranks, 0);
  EXPECT_EQ(other.workers, 3);
  EXPECT_EQ((*hosts)[1].ranks, 2);
}

TEST(HostsFileTest, NamesTheLineOfEveryError) {
  const std::string errors = FaultOf(
      "a coordinator ranks=1\nb workers=x\nc worker=1\n\nd workers=1 address=10.0.0.1:7\n"
      "-oProxyCommand=sh workers=1\na workers=1\ne workers=1001\n");
  EXPECT_THAT(errors, HasSubstr("hosts:2: 'workers=x': expected workers=N with N from 0 to 1000"));
  EXPECT_THAT(errors, HasSubstr("hosts:3: unknown field 'worker=1'; choose of coordinator"));
  EXPECT_THAT(errors, HasSubstr("hosts:5: 'address=10.0.0.1:7': expected address=NAME"));
  EXPECT_THAT(errors, HasSubstr("hosts:6: '-oProxyCommand=sh' is no name of a machine"));
  EXPECT_THAT(errors, HasSubstr("hosts:7: a appears twice"));
  EXPECT_THAT(errors, HasSubstr("hosts:8: 'workers=1001'"));
  EXPECT_THAT(errors, ::testing::Not(HasSubstr("hosts:1:")));
  EXPECT_THAT(errors, ::testing::Not(HasSubstr("hosts:4:")));
}

TEST(HostsFileTest, RefusesWhatCannotBeRun) {
  EXPECT_THAT(FaultOf("a coordinator workers=1\nb ranks=1\n"),
              HasSubstr("hosts:1: the coordinator's machine needs ranks=1 or more"));
  EXPECT_THAT(FaultOf("a coordinator workers=1 ranks=1\nb\n"),
              HasSubstr("hosts:2: b runs nothing"));
  EXPECT_THAT(FaultOf("a coordinator workers=1 ranks=1\nme@b ranks=1\n"),
              HasSubstr("hosts:2: me@b: mpirun takes no user"));
  EXPECT_THAT(FaultOf("a workers=1 ranks=1\n"), HasSubstr("hosts: 0 machines have the field"));
  EXPECT_THAT(FaultOf("a coordinator workers=1 ranks=1\nb coordinator ranks=1\n"),
              HasSubstr("hosts: 2 machines have the field coordinator"));
  EXPECT_THAT(FaultOf("a coordinator ranks=1\n"), HasSubstr("no machine has a rollout worker"));
  EXPECT_THAT(FaultOf(""), HasSubstr("hosts: 0 machines have the field coordinator"));
}

}  // namespace
}  // namespace buttress
