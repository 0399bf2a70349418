// A coordinator and its standby, as processes with folders of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/base/os/clock.h"
#include "lib/base/os/fd.h"
#include "lib/base/text/digest.h"
#include "lib/weights/checkpoint_folder.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::standby_test {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 60;
constexpr int kLostAtStep = 20;
constexpr std::int64_t kRunMs = 120000;

// Of the loopback interface, and free a moment ago.
std::string FreeAddress() {
  const OwnedFd port(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(port.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(port.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

// The programs of a deterministic run, each in a folder of its own.
class StandbyCluster {
 public:
  StandbyCluster() { SetChildSubreaper(); }

  ~StandbyCluster() { KillDescendants(); }

  // Starts a program in the folder `name`; `coordinator` is the section of that name.
  Process Start(const std::string& program, const std::string& name, const std::string& coordinator,
                const std::vector<std::string>& more = {}) {
    const std::string out = Folder(name);
    std::string yaml = TinyRunYaml(out, kSteps);
    const std::string age = "max_age: 1";
    yaml.replace(yaml.find(age), age.size(), "max_age: 0, window: 1");
    const std::string seconds = "  lease_ms";
    yaml.replace(yaml.find(seconds), seconds.size(), "  deterministic: true\n  lease_ms");
    EXPECT_TRUE(
        WriteFileAtomic(out + ".yaml", yaml + "  coordinator: {" + coordinator + "}\n").ok());
    std::vector<std::string> argv = {SiblingProgram(program), "--config", out + ".yaml"};
    argv.insert(argv.end(), more.begin(), more.end());
    return *Process::Start(argv, Log(name + std::to_string(++starts_)));
  }

  Process StartCoordinator(const std::string& name, const std::string& address,
                           const std::string& mode) {
    Process process = Start("coordinator", name, "listen: \"" + address + "\", standby: " + mode);
    EXPECT_TRUE(WaitUntil(kRunMs, [&] { return Has(name + "/coordinator.address"); }));
    return process;
  }

  Process StartStandby(const std::string& name, const std::string& address) {
    Process process = Start("coordinator", name, "advertise: \"" + address + "\"", {"--standby"});
    EXPECT_TRUE(WaitUntil(kRunMs, [&] {
      return Has(name + "/standby.json") &&
             TextOf(Folder(name) + "/standby.json").find("true") != std::string::npos;
    })) << Logs();
    return process;
  }

  bool WaitForStep(double step) const {
    return WaitUntil(kRunMs, [&] {
      const auto steps = ReadSteps(Folder("learner") + "/steps.jsonl");
      return steps.ok() && !steps->empty() && steps->back().step >= step;
    });
  }

  std::string FinalWeights() const {
    const std::string folder = CheckpointFolderOf(Folder("learner") + "/checkpoint", kSteps);
    return ToHex(Sha256Of(TextOf(folder + "/rank-0.safetensors")));
  }

  // What `buttress status` says of the standby of the coordinator in `name`.
  std::string StandbyStatus(const std::string& name) const {
    const TempDir dir;
    const std::string log = JoinPath(dir.path(), "status");
    RunToEnd({SiblingProgram("buttress"), "status", Folder(name), "--json"}, log, kRunMs);
    const auto status = nlohmann::json::parse(TextOf(log), nullptr, false);
    return status.is_object() ? status.value("standby", "") : "";
  }

  std::string Folder(const std::string& name) const { return dir_.path() + "/" + name; }

  std::string Log(const std::string& name) const { return Folder(name) + ".log"; }

  std::string Logs() const {
    std::string text;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      if (entry.path().extension() == ".log")
        text += "\n--- " + entry.path().string() + "\n" + TextOf(entry.path().string());
    }
    return text;
  }

 private:
  bool Has(const std::string& name) const { return std::filesystem::exists(Folder(name)); }

  const TempDir dir_;
  int starts_ = 0;
};

void ExpectLearnerEnds(const StandbyCluster& cluster, Process& learner) {
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !learner.Running(); })) << cluster.Logs();
  ASSERT_EQ(learner.exit_code(), 0) << cluster.Logs();
}

std::string WeightsOfAnUndisturbedRun() {
  StandbyCluster cluster;
  const std::string address = FreeAddress(), at = "advertise: \"" + address + "\"";
  cluster.StartCoordinator("primary", address, "off");
  cluster.Start("rollout_worker", "worker", at);
  Process learner = cluster.Start("learner", "learner", at);
  ExpectLearnerEnds(cluster, learner);
  return cluster.FinalWeights();
}

TEST(StandbyTest, ARunThatLosesTheCoordinatorsMachineEndsWithTheBitsOfOneThatDoesNot) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const std::string expected = WeightsOfAnUndisturbedRun();
  StandbyCluster cluster;
  const std::string first = FreeAddress(), second = FreeAddress();
  const std::string both = "advertise: \"" + first + "," + second + "\"";
  Process primary = cluster.StartCoordinator("primary", first, "synchronous, standby_wait_ms: 0");
  Process standby = cluster.StartStandby("standby", first);
  cluster.Start("rollout_worker", "worker", both);
  Process learner = cluster.Start("learner", "learner", both);
  ASSERT_TRUE(cluster.WaitForStep(kLostAtStep)) << cluster.Logs();
  EXPECT_THAT(cluster.StandbyStatus("primary"), HasSubstr("synchronous standby: 0 turns behind"));

  primary.Signal(SIGKILL);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !primary.Running(); }));
  std::filesystem::remove_all(cluster.Folder("primary"));
  const double lost = MonotonicSeconds();
  standby.Signal(SIGTERM);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !standby.Running(); })) << cluster.Logs();
  EXPECT_EQ(standby.exit_code(), 0);
  Process promoted = cluster.StartCoordinator("standby", second, "off");
  RecordProperty("failover_ms", static_cast<int>((MonotonicSeconds() - lost) * 1000));
  ExpectLearnerEnds(cluster, learner);
  EXPECT_EQ(cluster.FinalWeights(), expected);
  promoted.Signal(SIGTERM);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !promoted.Running(); }));
  EXPECT_EQ(RunToEnd({SiblingProgram("buttress"), "ledger", "audit", cluster.Folder("standby"),
                      "--learner", cluster.Folder("learner")},
                     cluster.Log("audit"), kRunMs),
            0)
      << TextOf(cluster.Log("audit"));
}

TEST(StandbyTest, AnAsynchronousStandbyThatStandsStillShowsItsLagAndCatchesUp) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  StandbyCluster cluster;
  const std::string address = FreeAddress(), at = "advertise: \"" + address + "\"";
  cluster.StartCoordinator("primary", address, "asynchronous");
  const Process standby = cluster.StartStandby("standby", address);
  standby.Signal(SIGSTOP);
  cluster.Start("rollout_worker", "worker", at);
  Process learner = cluster.Start("learner", "learner", at);
  ASSERT_NO_FATAL_FAILURE(ExpectLearnerEnds(cluster, learner));
  const std::string behind = cluster.StandbyStatus("primary");
  EXPECT_THAT(behind, ::testing::MatchesRegex("asynchronous standby: [1-9].* turns behind.*"));
  standby.Signal(SIGCONT);
  EXPECT_TRUE(WaitUntil(kRunMs,
                        [&] {
                          return cluster.StandbyStatus("primary").starts_with(
                              "asynchronous standby: 0 turns behind");
                        }))
      << cluster.StandbyStatus("primary") << cluster.Logs();
}

}  // namespace
}  // namespace buttress::standby_test
