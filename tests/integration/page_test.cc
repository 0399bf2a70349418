// The page of a running run, and `buttress samples`: their numbers are those of steps.jsonl and of
// the ledger.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "lib/samples/sample_reader.h"
#include "tests/support/brake.h"
#include "tests/support/runs/browser.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::page_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::int64_t kRunMs = 100000;

// What `argv` prints; an empty string if it fails.
std::string Output(const std::vector<std::string>& argv, int expected = 0) {
  const TempDir dir;
  const std::string log = JoinPath(dir.path(), "log");
  EXPECT_EQ(RunToEnd(argv, log, kRunMs), expected) << TextOf(log);
  return TextOf(log);
}

std::string LinkOf(const LaunchedRun& run) {
  const std::string text = TextOf(JoinPath(run.out(), "coordinator.page"));
  return text.substr(0, text.find('\n'));
}

// The data of the page by a visit with the present link.
nlohmann::json Visit(const LaunchedRun& run) {
  const std::string link = LinkOf(run), jar = JoinPath(run.out(), "jar");
  Output({"curl", "-sS", "-L", "--max-time", "60", "-c", jar, "-b", jar, link});
  const std::string text = Output({"curl", "-sS", "--max-time", "60", "-b", jar,
                                   link.substr(0, link.find("/?")) + "/data?after=-1"});
  return nlohmann::json::parse(text, nullptr, false);
}

void ExpectPointsOfFile(const nlohmann::json& data, const LaunchedRun& run) {
  const auto steps = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  ASSERT_GE(data["points"].size(), 6U);
  ASSERT_LE(data["points"].size(), steps->size());
  const auto at = [&data](const std::string& name) {
    const auto names = data["names"].get<std::vector<std::string>>();
    return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  };
  for (std::size_t i = 0; i < data["points"].size(); ++i) {
    const nlohmann::json& values = data["points"][i]["values"];
    const StepMeasurements& step = (*steps)[i];
    EXPECT_EQ(values[at("step")], step.step);
    EXPECT_EQ(values[at("raw_reward_mean")], step.raw_reward_mean);
    EXPECT_EQ(values[at("entropy")], step.entropy);
    EXPECT_EQ(values[at("tokens_per_second")], step.tokens_per_second);
    if (std::isfinite(step.acr)) {
      EXPECT_EQ(values[at("acr")], step.acr);
    }
  }
}

void ExpectSamplesOfLedger(const nlohmann::json& data, const LaunchedRun& run) {
  auto reader = LedgerReader::Open(JoinPath(run.out(), "ledger.db"));
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  ASSERT_EQ(data["samples"].size(), 8U) << data.dump();
  for (const nlohmann::json& group : data["samples"]) {
    const std::uint64_t ids[] = {group["group"].get<std::uint64_t>()};
    const auto records = (*reader)->GroupsById(ids);
    ASSERT_TRUE(records.ok() && records->size() == 1 && records->front().accepted);
    const v1::GroupHead& head = *records->front().accepted->head;
    EXPECT_EQ(group["class"], CollapseClassName(ClassOf(head)));
    ASSERT_EQ(group["completions"].size(), CompletionsOf(head));
    for (std::size_t i = 0; i < CompletionsOf(head); ++i) {
      EXPECT_EQ(group["completions"][i]["raw_reward"], RewardsOf(head)[i]);
      EXPECT_EQ(group["completions"][i]["tokens"], head.lengths(static_cast<int>(i)));
      EXPECT_FALSE(group["completions"][i]["text"].get<std::string>().empty());
    }
  }
}

void ExpectSamplesCommand(const nlohmann::json& group, const LaunchedRun& run) {
  const std::string buttress = SiblingProgram("buttress"), id = group["group"].dump();
  const auto printed = nlohmann::json::parse(
      Output({buttress, "samples", run.out(), "--group", id, "--json"}), nullptr, false);
  ASSERT_TRUE(printed.is_object());
  for (std::size_t i = 0; i < group["completions"].size(); ++i) {
    EXPECT_EQ(printed["completions"][i]["text"], group["completions"][i]["text"]);
    EXPECT_EQ(printed["completions"][i]["outcome"], group["completions"][i]["outcome"]);
  }
  const std::string text = Output({buttress, "samples", run.out(), "--last", "2"});
  EXPECT_THAT(text, StartsWith("step "));
  EXPECT_THAT(text, HasSubstr(" tokens"));
  const std::string mixed =
      Output({buttress, "samples", run.out(), "--last", "3", "--class", "all-wrong", "--json"});
  std::istringstream lines(mixed);
  for (std::string line; std::getline(lines, line);)
    EXPECT_EQ(nlohmann::json::parse(line)["class"], "all_wrong");
  Output({buttress, "samples", run.out(), "--step", "4000"}, 2);
  Output({buttress, "samples", run.out(), "--class", "wrong"}, 2);
}

TEST(PageTest, PageAndSamplesTellWhatStepsAndLedgerHold) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const Brake brake(30);  // the run is at work during the first visits
  LaunchedRun run(400, brake.With({"--no-eval"}));
  run.Start();
  ASSERT_TRUE(run.WaitForStep(6, kRunMs)) << run.Text();
  EXPECT_TRUE(WaitUntil(kRunMs, [&run] {
    return TextOf(run.log()).find("launch: page of the run, for one browser") != std::string::npos;
  })) << run.Text();
  const std::string link = LinkOf(run);
  ASSERT_THAT(link, StartsWith("http://127.0.0.1:"));
  const auto status = nlohmann::json::parse(
      Output({SiblingProgram("buttress"), "status", run.out(), "--json"}), nullptr, false);
  EXPECT_EQ(status["page"], link);
  const std::string refused = Output({"curl", "-sS", "--max-time", "60", "-w", "%{http_code}",
                                      link.substr(0, link.find("/?")) + "/data"});
  EXPECT_THAT(refused, HasSubstr("401"));
  EXPECT_THAT(refused, Not(HasSubstr("points")));

  // The run takes steps before all of its workers are there.
  nlohmann::json data;
  ASSERT_TRUE(WaitUntil(kRunMs, [&] {
    data = Visit(run);
    return data["status"]["workers"].size() == 2U;
  })) << data.dump();
  ASSERT_TRUE(data.is_object());
  EXPECT_EQ(data["problems"], nlohmann::json::array()) << data["problems"];
  EXPECT_EQ(data["run"], "tiny");
  ExpectPointsOfFile(data, run);
  ExpectSamplesOfLedger(data, run);
  ExpectSamplesCommand(data["samples"][0], run);
  if (!HasBrowser()) GTEST_SKIP() << kNoBrowser;
  const Rendered page = Render(LinkOf(run));
  EXPECT_THAT(page.log, Not(HasSubstr("CONSOLE"))) << page.log;
  EXPECT_THAT(page.dom, HasSubstr(" of 400"));
  EXPECT_THAT(page.dom, HasSubstr("Newest completions"));
}

// The processes of a run whose coordinator has a folder of its own.
class ApartRun {
 public:
  ApartRun() {
    EXPECT_TRUE(WriteFileAtomic(yaml_, TinyRunYaml(Folder("learner"), kSteps)).ok());
    Start("coordinator", {"local.out=" + Folder("coordinator")});
    const std::string address = JoinPath(Folder("coordinator"), "coordinator.address");
    EXPECT_TRUE(WaitUntil(kRunMs, [&] { return std::filesystem::exists(address); }));
    const std::string text = TextOf(address);
    const std::string known = "local.coordinator.advertise=" + text.substr(0, text.find('\n'));
    Start("rollout_worker", {known, "local.worker.id=w0"});
    learner_ =
        Start("learner", {known, "local.launch.learner_ranks=1", "local.learner.collective=local"});
  }

  ~ApartRun() { KillDescendants(); }

  bool WaitForLearner() {
    return WaitUntil(kRunMs, [this] { return !learner_->Running(); }) && learner_->exit_code() == 0;
  }

  std::string Folder(const std::string& name) const { return JoinPath(dir_.path(), name); }

  static constexpr int kSteps = 6;

 private:
  std::optional<Process> Start(const std::string& program, std::vector<std::string> settings) {
    SetChildSubreaper();
    std::vector<std::string> argv = {SiblingProgram(program), "--config", yaml_};
    for (const std::string& setting : settings) argv.insert(argv.end(), {"--set", setting});
    auto process = Process::Start(argv, Folder(program + ".log"));
    EXPECT_TRUE(process.ok()) << process.status().message();
    return process.ok() ? std::optional(*process) : std::nullopt;
  }

  const TempDir dir_;
  const std::string yaml_ = Folder("run.yaml");
  std::optional<Process> learner_;
};

TEST(PageTest, WithoutACommonFolderTheLearnerSendsItsSteps) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  ApartRun run;
  ASSERT_TRUE(run.WaitForLearner()) << TextOf(run.Folder("learner.log"));
  const auto own = ReadSteps(JoinPath(run.Folder("learner"), "steps.jsonl"));
  const auto received = ReadSteps(JoinPath(run.Folder("coordinator"), "received_steps.jsonl"));
  ASSERT_TRUE(own.ok() && received.ok());
  ASSERT_EQ(own->size(), static_cast<std::size_t>(ApartRun::kSteps));
  ASSERT_EQ(received->size(), own->size());
  for (std::size_t i = 0; i < own->size(); ++i)
    EXPECT_EQ(StepToJson((*received)[i]), StepToJson((*own)[i]));
  EXPECT_FALSE(std::filesystem::exists(JoinPath(run.Folder("coordinator"), "steps.jsonl")));
}

}  // namespace
}  // namespace buttress::page_test
