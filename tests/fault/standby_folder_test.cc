// What a standby receives of a whole run, and by which right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/support/runs/made_certificates.h"
#include "tests/support/runs/standby_cluster.h"

namespace buttress::standby_test {
namespace {

using ::testing::HasSubstr;

constexpr char kNames[] = "here,127.0.0.1";

std::string SecurityYaml(const MadeCertificates& files, const std::string& tokens) {
  return "  security: {certificate: " + files.Path("here.pem") +
         ", key: " + files.Path("here.key") + ", ca: " + files.Path("ca.pem") +
         ", tokens: " + tokens + "}\n";
}

// A folder with the token of one role alone.
class OneToken {
 public:
  OneToken(const std::string& role, const MadeCertificates& of) {
    std::filesystem::copy(of.Path(role + ".token"), folder() + "/" + role + ".token");
  }

  const std::string& folder() const { return dir_.path(); }

 private:
  const TempDir dir_;
};

TEST(StandbyFolderTest, OverTlsAStandbyNeedsTheOperatorsTokenAndNoOther) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const MadeCertificates made(kNames), others(kNames);
  const OneToken operating("operator", made), of_another_run("operator", others),
      learner("learner", made);
  StandbyCluster cluster(SecurityYaml(made, made.folder()));
  const std::string address = FreeAddress();
  cluster.StartCoordinator("primary", address, "asynchronous");

  const std::string foreign = SecurityYaml(made, of_another_run.folder());
  Process refused = cluster.StartFollowing("foreign", address, foreign.c_str());
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !refused.Running(); })) << cluster.Logs();
  EXPECT_NE(refused.exit_code(), 0);
  EXPECT_THAT(cluster.Logs(), HasSubstr("the token is missing or of another run"));

  const std::string of_learner = SecurityYaml(made, learner.folder());
  refused = cluster.StartFollowing("learner", address, of_learner.c_str());
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !refused.Running(); })) << cluster.Logs();
  EXPECT_EQ(refused.exit_code(), 2);
  EXPECT_THAT(cluster.Logs(), HasSubstr("operator.token"));

  Process open = cluster.StartFollowing("open", address, "");
  ASSERT_TRUE(WaitUntil(kRunMs, [&] {
    return cluster.Logs().find("cannot be followed") != std::string::npos;
  })) << cluster.Logs();
  EXPECT_FALSE(std::filesystem::exists(cluster.Folder("open") + "/incoming"));
  cluster.End(open);

  const std::string right = SecurityYaml(made, operating.folder());
  Process standby = cluster.StartFollowing("standby", address, right.c_str());
  EXPECT_TRUE(WaitUntil(kRunMs, [&] { return cluster.HasCopy("standby"); })) << cluster.Logs();
  cluster.End(standby);
}

std::map<std::string, std::string> FilesOf(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const char* name : {"ledger.db", "ledger.db-wal"}) files[name] = TextOf(folder + "/" + name);
  for (const char* part : {"payloads", "archive"}) {
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/" + part, missing))
      files[std::string(part) + "/" + entry.path().filename().string()] =
          TextOf(entry.path().string());
  }
  return files;
}

// Settled groups leave the database, and their payloads the disk, while the standby follows.
TEST(StandbyFolderTest, AtTheEndOfARunTheStandbyHasTheFilesOfTheCoordinator) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  StandbyCluster cluster;
  const std::string address = FreeAddress(), at = "advertise: \"" + address + "\"";
  cluster.StartCoordinator("primary", address, "synchronous, payload_segment_bytes: 65536");
  Process standby = cluster.StartStandby("standby", address);
  Process worker = cluster.Start("rollout_worker", "worker", at);
  Process learner = cluster.Start("learner", "learner", at);
  ExpectLearnerEnds(cluster, learner);
  worker.Signal(SIGKILL);  // which would go on to report
  const auto equal = [&] {
    return FilesOf(cluster.Folder("primary")) == FilesOf(cluster.Folder("standby"));
  };
  EXPECT_TRUE(WaitUntil(kRunMs, equal)) << cluster.Logs();
  EXPECT_FALSE(FilesOf(cluster.Folder("standby")).contains("payloads/00000001.seg"));
  cluster.End(standby);
  cluster.ExpectCleanAudit("standby");
}

}  // namespace
}  // namespace buttress::standby_test
