#include "cli/track/mlflow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/track/follow.h"
#include "lib/base/file.h"
#include "lib/base/sync.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// Answers as MLflow does, and keeps what it was sent.
class FakeMlflow {
 public:
  std::string url() const { return server_.url(); }

  void Refuse(int status) {
    const MutexLock lock(mutex_);
    refuse_ = status;
  }

  // "runs/log-batch", ... in the order of arrival.
  std::vector<std::string> methods() const {
    const MutexLock lock(mutex_);
    std::vector<std::string> methods;
    for (const auto& [method, request] : requests_) methods.push_back(method);
    return methods;
  }

  // The steps of every value of the metric, in the order of arrival.
  std::vector<std::int64_t> StepsOf(const std::string& metric) const {
    const MutexLock lock(mutex_);
    std::vector<std::int64_t> steps;
    for (const auto& [method, request] : requests_) {
      for (const json& sent : request.value("metrics", json::array())) {
        if (sent["key"] == metric) steps.push_back(sent["step"]);
      }
    }
    return steps;
  }

  json Last() const {
    const MutexLock lock(mutex_);
    return requests_.back().second;
  }

  std::size_t largest_batch() const {
    const MutexLock lock(mutex_);
    std::size_t largest = 0;
    for (const auto& [method, request] : requests_)
      largest = std::max(largest, request.value("metrics", json::array()).size());
    return largest;
  }

 private:
  void Answer(const ScriptedRequest& request, ScriptedConnection& connection) {
    const std::string prefix = "/api/2.0/mlflow/";
    const std::string method = request.target.substr(prefix.size());
    const MutexLock lock(mutex_);
    if (refuse_ != 0) return connection.Reply(refuse_, R"({"message": "no"})");
    requests_.emplace_back(method, json::parse(request.body));
    if (method == "experiments/create") return connection.Reply(200, R"({"experiment_id": "7"})");
    if (method == "runs/create")
      return connection.Reply(200, R"({"run": {"info": {"run_id": "abc"}}})");
    connection.Reply(200, "{}");
  }

  mutable Mutex mutex_;
  int refuse_ GUARDED_BY(mutex_) = 0;
  std::vector<std::pair<std::string, json>> requests_ GUARDED_BY(mutex_);
  ScriptedHttpServer server_{
      [this](const ScriptedRequest& request, ScriptedConnection& connection) {
        Answer(request, connection);
      }};
};

class MlflowTest : public testing::Test {
 protected:
  MlflowOptions Options() const {
    return {.url = server_.url(),
            .token = "secret",
            .experiment = "collapse",
            .run_name = "a run",
            .settings = {{"run.steps", "5"}},
            .state_path = folder_.path() + "/mlflow.json"};
  }

  std::unique_ptr<MlflowTracker> Open() {
    auto tracker = MlflowTracker::Create(Options());
    EXPECT_TRUE(tracker.ok()) << tracker.status().message();
    return std::move(*tracker);
  }

  static StepMeasurements StepAt(double step, double time) {
    StepMeasurements ended;
    ended.step = step;
    ended.time_unix = time;
    return ended;
  }

  TempDir folder_;
  FakeMlflow server_;
};

TEST_F(MlflowTest, MakesExperimentAndRunAndSendsTheSteps) {
  const auto tracker = Open();
  ASSERT_TRUE(tracker->Add(std::vector{StepAt(1, 10), StepAt(2, 11)}).ok());
  ASSERT_TRUE(tracker->End(RunEnd::kFinished).ok());
  EXPECT_THAT(server_.methods(),
              ElementsAre("experiments/search", "experiments/create", "runs/create",
                          "runs/log-batch", "runs/log-batch", "runs/update"));
  EXPECT_THAT(server_.StepsOf("reward_mean"), ElementsAre(1, 2));
  EXPECT_EQ(server_.Last()["status"], "FINISHED");
}

TEST_F(MlflowTest, ManyStepsAreSentInBatchesThatTheServerTakes) {
  std::vector<StepMeasurements> steps;
  std::vector<std::int64_t> numbers;
  for (int i = 1; i <= 40; ++i) {
    steps.push_back(StepAt(i, i));
    numbers.push_back(i);
  }
  ASSERT_TRUE(Open()->Add(steps).ok());
  EXPECT_EQ(server_.StepsOf("acr"), numbers);
  EXPECT_LE(server_.largest_batch(), 1000u);
}

TEST_F(MlflowTest, ATrackerThatStartsAgainSendsOnlyWhatIsNew) {
  ASSERT_TRUE(Open()->Add(std::vector{StepAt(1, 10), StepAt(2, 11), StepAt(3, 12)}).ok());
  // Steps 2 and 3 were trained again while no tracker was there.
  const auto again = Open();
  ASSERT_TRUE(again->Add(std::vector{StepAt(1, 10), StepAt(2, 20), StepAt(3, 21)}).ok());
  EXPECT_THAT(server_.StepsOf("acr"), ElementsAre(1, 2, 3, 2, 3));
  EXPECT_EQ(std::ranges::count(server_.methods(), "runs/create"), 1);
}

TEST_F(MlflowTest, ARefusalNamesTheServerAndLosesNothing) {
  const auto tracker = Open();
  server_.Refuse(503);
  const Status refused = tracker->Add(std::vector{StepAt(1, 10)});
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr(server_.url() + "/api/2.0/mlflow/"));
  EXPECT_THAT(refused.message(), HasSubstr("503"));
  server_.Refuse(0);
  ASSERT_TRUE(tracker->Add(std::vector{StepAt(1, 10)}).ok());
  EXPECT_THAT(server_.StepsOf("acr"), ElementsAre(1));
}

TEST_F(MlflowTest, AFeedKeepsTheStepsWhileTheServerIsAway) {
  const std::string path = folder_.path() + "/steps.jsonl";
  TrackerFeed feed(Open(), path);
  ASSERT_TRUE(AppendStep(path, StepAt(1, 10)).ok());
  server_.Refuse(503);
  EXPECT_TRUE(feed.FeedPatiently(0).ok());
  server_.Refuse(0);
  ASSERT_TRUE(AppendStep(path, StepAt(2, 11)).ok());
  EXPECT_TRUE(feed.FeedPatiently(1).ok());
  EXPECT_THAT(server_.StepsOf("acr"), ElementsAre()) << "the server is left alone for a while";
  EXPECT_TRUE(feed.FeedPatiently(40000).ok());
  EXPECT_TRUE(feed.FeedPatiently(40001).ok());
  EXPECT_THAT(server_.StepsOf("acr"), ElementsAre(1, 2));
}

TEST_F(MlflowTest, AnEvaluationThatNoStepHoldsIsSentOnce) {
  EvalRow of_four, of_six;
  of_four.step = 4;
  of_four.time_unix = 30;
  of_six.step = 6;
  of_six.time_unix = 31;
  ASSERT_TRUE(Open()->Add(std::vector{StepAt(6, 20)}).ok());
  const auto tracker = Open();
  ASSERT_TRUE(tracker->Add(std::vector{StepAt(6, 20)}).ok());
  ASSERT_TRUE(tracker->AddEvaluations(std::vector{of_four}).ok());
  server_.Refuse(503);
  EXPECT_FALSE(tracker->AddEvaluations(std::vector{of_four, of_six}).ok());
  server_.Refuse(0);
  ASSERT_TRUE(Open()->AddEvaluations(std::vector{of_four, of_six}).ok());
  EXPECT_THAT(server_.StepsOf("eval/completions"), ElementsAre(4, 6));
  EXPECT_THAT(server_.StepsOf("eval/accuracy"), ElementsAre()) << "not measured";
  EXPECT_EQ(std::ranges::count(server_.methods(), "runs/create"), 1);
}

TEST_F(MlflowTest, ADamagedStateIsNotOverwritten) {
  const std::string path = Options().state_path;
  ASSERT_TRUE(WriteFileAtomic(path, R"({"url": 1})").ok());
  const auto tracker = MlflowTracker::Create(Options());
  ASSERT_EQ(tracker.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(tracker.status().message(), HasSubstr(path));
}

TEST(MlflowNameTest, HasNoBytesThatTheServerRefuses) {
  EXPECT_EQ(MlflowName("sources/a:b\xc3\xa4/acr"), "sources/a_b__/acr");
}

}  // namespace
}  // namespace buttress
