#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "rollout_worker/run_worker.h"

namespace buttress {
namespace {

TEST(WorkerIdTest, DefaultIdsOfOneHostAndOneProcessDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) ids.insert(*WorkerIdOf({}));
  EXPECT_EQ(ids.size(), 100U);
}

TEST(WorkerIdTest, AnIdOfTheConfigurationIsKeptIfItIsAPlainFileName) {
  WorkerConfig config;
  config.id = "w-7";
  EXPECT_EQ(*WorkerIdOf(config), "w-7");
  config.id = "a/b";
  EXPECT_THAT(WorkerIdOf(config).status().message(), testing::HasSubstr("local.worker.id = 'a/b'"));
}

}  // namespace
}  // namespace buttress
