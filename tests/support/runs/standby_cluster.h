// A coordinator and its standby, as processes with folders of their own.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/os/fd.h"
#include "lib/base/text/digest.h"
#include "lib/weights/checkpoint_folder.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::standby_test {

inline constexpr int kSteps = 60;
inline constexpr std::int64_t kRunMs = 120000;

// Of the loopback interface, and free a moment ago.
inline std::string FreeAddress() {
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
  // `local` is further lines of that section.
  explicit StandbyCluster(std::string local = "") : local_(std::move(local)) {
    SetChildSubreaper();
  }

  ~StandbyCluster() { KillDescendants(); }

  // Starts a program in the folder `name`; `coordinator` is the section of that name, and `local`
  // is in the place of the cluster's.
  Process Start(const std::string& program, const std::string& name, const std::string& coordinator,
                const std::vector<std::string>& more = {}, const char* local = nullptr) {
    const std::string out = Folder(name);
    std::string yaml = TinyRunYaml(out, kSteps);
    const std::string age = "max_age: 1";
    yaml.replace(yaml.find(age), age.size(), "max_age: 0, window: 1");
    const std::string seconds = "  lease_ms";
    yaml.replace(yaml.find(seconds), seconds.size(), "  deterministic: true\n  lease_ms");
    yaml += "  coordinator: {" + coordinator + "}\n" + (local == nullptr ? local_ : local);
    EXPECT_TRUE(WriteFileAtomic(out + ".yaml", yaml).ok());
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
    Process process = StartFollowing(name, address);
    EXPECT_TRUE(WaitUntil(kRunMs, [&] { return HasCopy(name); })) << Logs();
    return process;
  }

  Process StartFollowing(const std::string& name, const std::string& address,
                         const char* local = nullptr) {
    return Start("coordinator", name, "advertise: \"" + address + "\"", {"--standby"}, local);
  }

  bool HasCopy(const std::string& name) const {
    return Has(name + "/standby.json") &&
           TextOf(Folder(name) + "/standby.json").find("whole") != std::string::npos;
  }

  // Ends a standby and starts a coordinator on its folder.
  Process Promote(Process& standby, const std::string& name, const std::string& address) {
    End(standby);
    return StartCoordinator(name, address, "off");
  }

  void End(Process& process) {
    process.Signal(SIGTERM);
    ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !process.Running(); })) << Logs();
    EXPECT_EQ(process.exit_code(), 0) << Logs();
  }

  void ExpectCleanAudit(const std::string& name) {
    EXPECT_EQ(RunToEnd({SiblingProgram("buttress"), "ledger", "audit", Folder(name), "--learner",
                        Folder("learner")},
                       Log("audit"), kRunMs),
              0)
        << TextOf(Log("audit"));
  }

  bool WaitForStep(double step) const {
    return WaitUntil(kRunMs, [&] {
      const auto steps = ReadSteps(Folder("learner") + "/steps.jsonl");
      return steps.ok() && !steps->empty() && steps->back().step >= step;
    });
  }

  int StepsTrained() const {
    const auto steps = ReadSteps(Folder("learner") + "/steps.jsonl");
    return steps.ok() ? static_cast<int>(steps->size()) : 0;
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
  const std::string local_;
  int starts_ = 0;
};

inline void ExpectLearnerEnds(const StandbyCluster& cluster, Process& learner) {
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !learner.Running(); })) << cluster.Logs();
  ASSERT_EQ(learner.exit_code(), 0) << cluster.Logs();
}

inline std::string WeightsOfAnUndisturbedRun() {
  StandbyCluster cluster;
  const std::string address = FreeAddress(), at = "advertise: \"" + address + "\"";
  cluster.StartCoordinator("primary", address, "off");
  cluster.Start("rollout_worker", "worker", at);
  Process learner = cluster.Start("learner", "learner", at);
  ExpectLearnerEnds(cluster, learner);
  return cluster.FinalWeights();
}

}  // namespace buttress::standby_test
