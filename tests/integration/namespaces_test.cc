// Runs two learner ranks, two workers and the coordinator on five machines (network namespaces)
// without a shared folder: weights travel by gRPC and from worker to worker, every connection uses
// TLS and the token, and one link at a time is cut, slow or lossy.
#include <gtest/gtest.h>

#include <fstream>
#include <tuple>

#include "lib/base/os/clock.h"
#include "lib/ledger/audit.h"
#include "tests/support/runs/machines.h"
#include "tests/support/runs/made_certificates.h"

namespace buttress::namespaces_test {
namespace {

constexpr int kSteps = 110;
constexpr int kGroupsOfAStep = 8;
constexpr std::int64_t kStartMs = 120000;
constexpr std::int64_t kCutMs = 30000;
constexpr std::int64_t kPoorMs = 6000;
constexpr std::int64_t kRunMs = 420000;

// A link to the coordinator carries a few kB per step; one to the learner, a version of 340 kB.
constexpr char kSlowControl[] = "limit rate over 2 kbytes/second burst 4 kbytes";
constexpr char kSlowWeights[] = "limit rate over 60 kbytes/second burst 96 kbytes";
constexpr char kLossy[] = "numgen random mod 100 < 15";

class NamespacesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = Machines::Forbidden(); !why.empty()) GTEST_SKIP() << why;
  }
};

// `mpirun` of a rank on each of l0 and l1; `more` are its further arguments and the program.
std::vector<std::string> RanksOnBoth(const Machines& machines,
                                     const std::vector<std::string>& more) {
  std::vector<std::string> argv = {"env", machines.AgentVariable("l1"), "mpirun"};
  for (const char* word : {"--allow-run-as-root", "-np", "2", "--host", "l0:1,l1:1", "--bind-to",
                           "none", "--mca", "oob_tcp_if_include", "eth0", "--mca", "plm_rsh_agent"})
    argv.emplace_back(word);
  argv.push_back(Machines::Agent());
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}

// A run on five machines. The programs share the `run` half and have their own `local` half.
class Cluster {
 public:
  Cluster() : machines_({"co", "l0", "l1", "wa", "wb"}), certificates_("co l0 l1 wa wb") {
    for (const char* name : {"co", "l0", "l1", "wa", "wb"}) Install(name);
  }

  void Start() {
    Run("co", {SiblingProgram("coordinator"), "--config", kYaml});
    Run("wa", {SiblingProgram("rollout_worker"), "--config", kYaml});
    Run("wb", {SiblingProgram("rollout_worker"), "--config", kYaml});
    Run("l0", RanksOnBoth(machines_,
                          {SiblingProgram("learner"), "--config", kYaml, "--expect-world", "2"}));
  }

  // Returns the last step that the learner has logged.
  std::int64_t step() const {
    const auto steps = ReadSteps(machines_.Path("l0", "/tmp/run/steps.jsonl"));
    return steps.ok() && !steps->empty() ? static_cast<std::int64_t>(steps->back().step) : 0;
  }

  bool WaitForStep(std::int64_t wanted, std::int64_t timeout_ms) {
    return WaitUntil(timeout_ms, [&] { return step() >= wanted || !AllRun(); }) && step() >= wanted;
  }

  bool AllRun() {
    bool all = true;
    for (auto& [name, process] : programs_) all = process.Running() && all;
    return all;
  }

  // Returns the exit code of a machine's program, or -1 if it did not end in time.
  int Wait(const std::string& name, std::int64_t timeout_ms) {
    Process& process = programs_.at(name);
    return WaitUntil(timeout_ms, [&] { return !process.Running(); }) ? process.exit_code() : -1;
  }

  // Returns the value of a series of a machine's /metrics, fetched from another machine as
  // Prometheus does, or -1 if the series is missing.
  double Metric(const std::string& name, const std::string& series) {
    const std::string to = JoinPath(dir_.path(), "scrape." + name);
    std::remove(to.c_str());
    RunToEnd(
        machines_.On(
            "co",
            {"sh", "-c",
             "curl -sS --max-time 10 --cacert /tmp/certs/ca.pem -H \"Authorization: Bearer $(cat "
             "/tmp/certs/monitor.token)\" https://" +
                 name + ":9100/metrics"}),
        to, 20000);
    const std::string text = TextOf(to);
    const std::size_t at = text.find("\n" + series + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + series.size() + 2));
  }

  std::string Text() const {
    std::string text;
    for (const auto& [name, process] : programs_)
      text += "\n--- " + name + "\n" + Tail(TextOf(Log(name)));
    return text;
  }

  Machines& machines() { return machines_; }

  void Signal(const std::string& name, int signal) { programs_.at(name).Signal(signal); }

 private:
  static constexpr char kYaml[] = "/tmp/run.yaml";

  // Installs model, prompts, certificate and configuration on a machine.
  void Install(const std::string& name) {
    namespace fs = std::filesystem;
    const std::string tmp = machines_.Path(name, "/tmp");
    fs::create_directories(tmp + "/task");
    fs::create_directories(tmp + "/certs");
    fs::copy(TinyTask::Get().folder() + "/model", tmp + "/task/model", fs::copy_options::recursive);
    fs::copy(TinyTask::Get().folder() + "/train.jsonl", tmp + "/task/train.jsonl");
    for (const std::string& file : {std::string("ca.pem"), std::string("worker.token"),
                                    std::string("learner.token"), std::string("operator.token"),
                                    std::string("monitor.token"), name + ".pem", name + ".key"}) {
      fs::copy(certificates_.Path(file), tmp + "/certs/" + file);
    }
    std::ofstream(tmp + "/run.yaml") << Yaml(name);
  }

  std::string Yaml(const std::string& name) const {
    const std::string ip = machines_.Address(name), certs = "/tmp/certs/";
    return "run:\n  name: machines\n  steps: " + std::to_string(kSteps) +
           "\n  checkpoint_interval: 10\n  lease_ms: 6000\n  data: {prompts: "
           "/tmp/task/train.jsonl}\n  model: {path: /tmp/task/model}\n"
           "  sampling: {group_size: 4, max_tokens: 8}\n  batch: {prompts: " +
           std::to_string(kGroupsOfAStep) +
           ", max_age: 1}\n  reward: {verifier: countdown, use_all: true}\n  algorithm: "
           "{advantage: avspo, avspo: {mode: opposite}}\n  optim: {lr: 3e-4}\n"
           "local:\n  out: /tmp/run\n"
           "  security: {certificate: " +
           certs + name + ".pem, key: " + certs + name + ".key, ca: " + certs +
           "ca.pem, tokens: " + certs + "}\n  coordinator: {listen: \"" +
           (name == "co" ? ip : "127.0.0.1") + ":7000\", advertise: \"co:7000\", metrics: \"" + ip +
           ":9100\"}\n  worker: {id: " + name + ", weights: grpc, listen: \"" + ip +
           ":7001\", advertise: \"" + name + ":7001\", metrics: \"" + ip +
           ":9100\", max_running: 64}\n  learner: {interface: eth0, collective_timeout_ms: 80000, "
           "stop_when: {uninformative_steps: 0}, listen: \"" +
           ip + ":7002\", advertise: \"l0:7002\", metrics: \"" + ip + ":9100\"}\n";
  }

  void Run(const std::string& name, const std::vector<std::string>& argv) {
    auto process = Process::Start(machines_.On(name, argv), Log(name));
    ASSERT_TRUE(process.ok()) << process.status().ToString();
    programs_.emplace(name, *process);
  }

  std::string Log(const std::string& name) const { return JoinPath(dir_.path(), name + ".log"); }

  static std::string Tail(const std::string& text) {
    return text.substr(text.size() - std::min<std::size_t>(text.size(), 4000));
  }

  TempDir dir_;
  Machines machines_;
  MadeCertificates certificates_;
  std::map<std::string, Process> programs_;
};

// Applies a fault to one link and checks that it costs time only: another step follows, and no
// program has ended.
void ApplyFault(Cluster& cluster, const std::string& a, const std::string& b,
                const std::string& match, std::int64_t ms) {
  SCOPED_TRACE(a + " - " + b + ": " + (match.empty() ? "cut" : match));
  const std::int64_t before = cluster.step();
  const double started = MonotonicSeconds();
  cluster.machines().Drop(a, b, match);
  WaitUntil(ms, [&] { return !cluster.AllRun(); });
  const std::int64_t meanwhile = cluster.step() - before;
  const int dropped = cluster.machines().Heal();
  const double healed = MonotonicSeconds();
  ASSERT_TRUE(cluster.AllRun()) << cluster.Text();
  ASSERT_TRUE(cluster.WaitForStep(cluster.step() + 1, 60000)) << cluster.Text();
  EXPECT_TRUE(dropped > 0 || !match.empty()) << "the link was not cut";
  std::printf(
      "%s - %s %s: %.0f s, %d packets dropped, %lld steps during it, the next %.1f s later\n",
      a.c_str(), b.c_str(), match.empty() ? "cut" : match.c_str(), healed - started, dropped,
      static_cast<long long>(meanwhile), MonotonicSeconds() - healed);
  std::fflush(stdout);
}

// Checks the ledger in `folder` against a recount. `all_wrong` is the last value in /metrics.
void ExpectLedgerBalances(const std::string& folder, double all_wrong) {
  auto reader = LedgerReader::Open(JoinPath(folder, "ledger.db"));
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  auto audit = AuditLedger(**reader);
  ASSERT_TRUE(audit.ok()) << audit.status().ToString();
  EXPECT_EQ(audit->violations(), std::vector<std::string>());
  for (const auto& [state, count] : audit->groups) {
    EXPECT_TRUE(state == "settled" || state == "dropped" || count == 0)
        << count << " groups are left " << state;
  }
  EXPECT_EQ(audit->groups["settled"], kSteps * kGroupsOfAStep);
  EXPECT_EQ(audit->recounted, audit->reported);
  EXPECT_EQ(all_wrong, static_cast<double>(audit->recounted.all_wrong));
}

TEST_F(NamespacesTest, FaultsOfOneLinkAtATimeCostTimeAndNothingElse) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  Cluster cluster;
  // wb never reaches the learner, so it fetches the policy from wa.
  cluster.machines().Drop("wb", "l0");
  cluster.Start();
  ASSERT_TRUE(cluster.WaitForStep(4, kStartMs)) << cluster.Text();
  EXPECT_TRUE(WaitUntil(60000, [&] {
    return cluster.Metric("wb", "buttress_worker_weights_version") >= 1;
  })) << cluster.Text();
  EXPECT_GT(cluster.Metric("wb", "buttress_worker_weight_bytes_total{source=\"worker\"}"), 100000)
      << cluster.Text();
  EXPECT_EQ(cluster.Metric("wb", "buttress_worker_weight_bytes_total{source=\"learner\"}"), 0);
  EXPECT_GT(cluster.machines().Heal(), 0);
  EXPECT_GT(cluster.Metric("l1", "process_start_time_seconds"), 0);

  for (const auto& [a, b, slow] :
       {std::tuple("wa", "co", kSlowControl), std::tuple("l0", "co", kSlowControl),
        std::tuple("wa", "l0", kSlowWeights)}) {
    ApplyFault(cluster, a, b, "", kCutMs);
    ApplyFault(cluster, a, b, slow, kPoorMs);
    ApplyFault(cluster, a, b, kLossy, kPoorMs);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(cluster.Wait("l0", kRunMs), 0) << cluster.Text();
  EXPECT_EQ(cluster.Wait("wa", 60000), 0) << cluster.Text();
  EXPECT_EQ(cluster.Wait("wb", 60000), 0) << cluster.Text();
  const double all_wrong =
      cluster.Metric("co", "buttress_coordinator_groups_scored_total{collapse=\"all_wrong\"}");
  cluster.Signal("co", SIGTERM);
  EXPECT_EQ(cluster.Wait("co", 60000), 0) << cluster.Text();
  // The ledger is copied, because SQLite resolves a path through /proc to a folder of this machine.
  const TempDir copy;
  std::filesystem::copy(cluster.machines().Path("co", "/tmp/run"), copy.path(),
                        std::filesystem::copy_options::recursive);
  ExpectLedgerBalances(copy.path(), all_wrong);
  const auto steps = ReadSteps(cluster.machines().Path("l0", "/tmp/run/steps.jsonl"));
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(steps->size(), static_cast<std::size_t>(kSteps));
  for (int i = 0; i < kSteps; ++i)
    EXPECT_EQ((*steps)[static_cast<std::size_t>(i)].step, i + 1)
        << "a step was done twice or left out";
  // No folder is shared: other machines do not see the ledger.
  for (const char* other : {"l0", "l1", "wa", "wb"}) {
    EXPECT_FALSE(std::filesystem::exists(cluster.machines().Path(other, "/tmp/run/ledger.db")))
        << other;
  }
}

// Two ranks on two machines. Each writes its reason for leaving to a file on its own machine,
// because mpirun does not receive the output of a rank that is cut off.
class TwoRanks {
 public:
  explicit TwoRanks(const std::string& mode) {
    log_ = JoinPath(dir_.path(), "mpirun.log");
    auto process = Process::Start(
        machines_.On("l0", RanksOnBoth(machines_, {"--enable-recovery", "--mca",
                                                   "btl_tcp_if_include", "eth0", "sh", "-c",
                                                   "exec " + SiblingProgram("collective_mpi_test") +
                                                       " " + mode + " 2>/tmp/rank.log"})),
        log_);
    EXPECT_TRUE(process.ok());
  }

  bool Says(const std::string& machine, const std::string& text) {
    return WaitUntil(20000, [&] { return Said(machine).find(text) != std::string::npos; });
  }

  std::string Said(const std::string& machine) const {
    return TextOf(machines_.Path(machine, "/tmp/rank.log")) + TextOf(log_);
  }

  Machines& machines() { return machines_; }

 private:
  TempDir dir_;
  Machines machines_{{"l0", "l1"}};
  std::string log_;
};

constexpr char kLeaves[] =
    "leaves: DEADLINE_EXCEEDED: MPI all-reduce: not done after 1500 ms; another rank is dead or "
    "stuck";

TEST_F(NamespacesTest, RanksThatLoseTheirConnectionBothExit) {
  TwoRanks ranks("--until-failure");
  ASSERT_TRUE(ranks.Says("l0", "rank 0 is there") && ranks.Says("l1", "rank 1 is there"))
      << ranks.Said("l0");
  ranks.machines().Drop("l0", "l1");
  EXPECT_TRUE(ranks.Says("l0", kLeaves)) << ranks.Said("l0");
  EXPECT_TRUE(ranks.Says("l1", kLeaves)) << ranks.Said("l1");
}

}  // namespace
}  // namespace buttress::namespaces_test
