// Runs of the real programs beside a worker that lies: nothing of it is trained on, the coordinator
// keeps within its memory and answers others, and the run trains to its end.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "tests/support/brake.h"
#include "tests/support/launched_run.h"
#include "tests/support/loopback_connection.h"

namespace buttress {
namespace {

constexpr int kGroupsOfAStep = 8;
constexpr std::int64_t kRunMs = 240000;
constexpr std::int64_t kStepMs = 60000;
constexpr int kPatienceSeconds = 60;
constexpr std::int64_t kKindsOfLies = 14;  // of lies.h
// Less than three groups of the largest size that a worker may submit.
constexpr std::int64_t kMemory = std::int64_t{700} << 20;

// A run with a liar from its second step to its end, which is held at a step while a test looks.
class LiarTest : public testing::Test {
 protected:
  // Starts a liar that tells what counts as `what` `wanted` times before the run goes on. Meanwhile
  // the workers get no leases, so that the liar does.
  void Begin(int steps, const std::vector<std::string>& cases, const std::string& what,
             std::int64_t wanted = 1) {
    StartRun(steps);
    Order("cordon");
    brake_.Release();
    StartLiar(cases);
    EXPECT_TRUE(WaitUntil(kStepMs, [&] { return Counted().value(what, 0) >= wanted; }))
        << TextOf(LiarLog()) << run_->Text();
    // Groups of the workers may still make two steps.
    const auto taken = ReadSteps(JoinPath(run_->out(), "steps.jsonl"));
    ASSERT_TRUE(taken.ok());
    held_ = static_cast<int>(taken->back().step) + 2;
    brake_.HoldAt(held_);
    Order("uncordon");
  }

  void StartRun(int steps) {
    steps_ = steps;
    ASSERT_EQ(TinyTask::Get().error(), "");
    run_.emplace(steps, brake_.With({"--no-eval"}));
    run_->Start();
    ASSERT_TRUE(run_->WaitForStep(held_, kRunMs)) << run_->Text();
    NoteMemory();
  }

  // Gives an order to both workers, once they are there.
  void Order(const std::string& order) {
    for (const char* worker : {"w0", "w1"}) {
      EXPECT_TRUE(WaitUntil(kStepMs, [&] {
        return RunToEnd({SiblingProgram("buttress"), order, run_->out(), worker},
                        JoinPath(dir_.path(), "order.log"), kStepMs) == 0;
      })) << TextOf(JoinPath(dir_.path(), "order.log"));
    }
  }

  void StartLiar(const std::vector<std::string>& cases) {
    std::vector<std::string> argv = {SiblingProgram("liar"), run_->out()};
    argv.insert(argv.end(), cases.begin(), cases.end());
    auto liar = Process::Start(argv, LiarLog());
    ASSERT_TRUE(liar.ok()) << liar.status().ToString();
    liar_ = *liar;
  }

  // Steps go on although the liar is at work.
  void ExpectSteps(int more) {
    held_ += more;
    brake_.HoldAt(held_);
    EXPECT_TRUE(run_->WaitForStep(held_, kStepMs)) << "no " << more << " steps more\n"
                                                   << run_->Text();
  }

  // What the liar has counted so far.
  nlohmann::json Counted() const {
    const std::string text = TextOf(LiarLog());
    const std::size_t line = std::min(text.rfind('{'), text.size());
    nlohmann::json counted = nlohmann::json::parse(text.substr(line), nullptr, false);
    return counted.is_object() ? counted : nlohmann::json::object();
  }

  // Waits for the end of the run and returns what the liar counted. Groups were accepted of the
  // honest workers, and of `also`.
  nlohmann::json End(const std::string& also = "") {
    brake_.Release();
    EXPECT_TRUE(WaitUntil(kRunMs, [this] {
      NoteMemory();
      return !run_->process().Running();
    })) << run_->Text();
    EXPECT_EQ(run_->Wait(0), 0) << run_->Text();
    EXPECT_TRUE(liar_->Running()) << TextOf(LiarLog());
    liar_->Signal(SIGTERM);
    EXPECT_TRUE(WaitUntil(kStepMs, [this] { return !liar_->Running(); }));
    ExpectStepsInOrder(*run_, steps_);
    ExpectAccountsBalance(*run_, steps_ * kGroupsOfAStep);
    ExpectGroupsOf({"w0", "w1", also});
    EXPECT_GT(memory_, 0);
    EXPECT_LT(memory_, kMemory);
    const auto summary = nlohmann::json::parse(TextOf(JoinPath(run_->out(), "summary.json")));
    EXPECT_EQ(summary["restarts"], 0);
    const nlohmann::json counted = Counted();
    EXPECT_FALSE(counted.empty()) << TextOf(LiarLog());
    return counted;
  }

  // The port of an address in the run folder.
  int Port(const std::string& file) const {
    const std::string address = TextOf(JoinPath(run_->out(), file));
    return std::stoi(address.substr(address.rfind(':') + 1));
  }

  std::string LiarLog() const { return JoinPath(dir_.path(), "liar.log"); }

  std::optional<LaunchedRun> run_;

 private:
  void NoteMemory() {
    for (const ProcessInfo& info : Descendants()) {
      if (info.name == "coordinator") memory_ = std::max(memory_, info.peak_rss_bytes);
    }
  }

  void ExpectGroupsOf(const std::set<std::string>& workers) {
    auto reader = LedgerReader::Open(JoinPath(run_->out(), "ledger.db"));
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    const Status read = (*reader)->ForEachGroup([&](const GroupRecord& record) {
      if (!record.accepted) return;
      EXPECT_TRUE(workers.contains(record.group.worker_id))
          << "group " << record.group.group_id << " is of " << record.group.worker_id;
    });
    EXPECT_TRUE(read.ok()) << read.ToString();
  }

  TempDir dir_;
  int steps_ = 0;
  int held_ = 2;
  const Brake brake_{held_};
  std::optional<Process> liar_;
  std::int64_t memory_ = 0;  // of the coordinator, at the highest
};

TEST_F(LiarTest, NoLieAboutAGroupIsTrainedOn) {
  Begin(40, {"groups", "names"}, "told", kKindsOfLies);
  ExpectSteps(3);
  const nlohmann::json counted = End();
  EXPECT_GT(counted["refused"], 0);
  EXPECT_EQ(counted["accepted"], 0);
}

// More often than a group may fail.
TEST_F(LiarTest, StrangersHaveNoGroupDropped) {
  Begin(40, {"strangers"}, "told", 20);
  ExpectSteps(3);
  EXPECT_EQ(End()["accepted"], 0);
  const auto reader = LedgerReader::Open(JoinPath(run_->out(), "ledger.db"));
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  const Status read = (*reader)->ForEachGroup([](const GroupRecord& record) {
    EXPECT_NE(record.group.reason, DropReason::kPoison) << "group " << record.group.group_id;
  });
  EXPECT_TRUE(read.ok()) << read.ToString();
}

TEST_F(LiarTest, StreamsWithoutALeaseTakeNothingThatOthersNeed) {
  Begin(200, {"streams"}, "opened");
  ExpectSteps(3);
  EXPECT_GT(End()["opened"], 0);
}

// A lease that is renewed ends after an hour.
TEST_F(LiarTest, ALeaseThatIsNeverSubmittedHoldsUpNothing) {
  Begin(40, {"hoard"}, "opened");
  ExpectSteps(3);
  EXPECT_GT(End()["opened"], 0);
}

// As above, of a worker that has delivered groups.
TEST_F(LiarTest, LeasesOfAWorkerThatNoLongerSubmitsHoldUpNothing) {
  Begin(40, {"turncoat"}, "accepted");
  ExpectSteps(3);
  EXPECT_GT(End("turncoat")["accepted"], 0);
}

TEST_F(LiarTest, ThePortOfMetricsAnswersBesideDrippingConnections) {
  Begin(200, {"metrics"}, "opened", 301);
  for (int i = 0; i < 3; ++i) {
    ExpectSteps(1);
    LoopbackConnection probe(1, Port("coordinator.metrics"), kPatienceSeconds);
    probe.Send("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_NE(probe.Receive().find("200 OK"), std::string::npos);
  }
  EXPECT_GT(End()["opened"], 300);
}

}  // namespace
}  // namespace buttress
