// The commands that read datasets, as real programs: formats, fields, and what they say about bad
// rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "lib/base/os/file.h"
#include "tests/support/runs/quickstart_run.h"
#include "tests/support/temp_dir.h"

namespace buttress::dataset_commands_test {
namespace {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kCommandMs = 120000;

class DatasetCommandsTest : public ::testing::Test {
 protected:
  // Runs a program and returns its exit code; what it printed is in output().
  int Run(const std::string& program, std::vector<std::string> words) {
    words.insert(words.begin(), SiblingProgram(program));
    log_ = Path("log" + std::to_string(++runs_));
    return RunToEnd(words, log_, kCommandMs);
  }

  std::string output() const { return TextOf(log_); }

  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }

  std::string Write(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(WriteFileAtomic(Path(name), text).ok());
    return Path(name);
  }

  static std::string Trl() { return BUTTRESS_GOLDEN "/columns/trl"; }

  TempDir dir_;
  std::string log_;
  int runs_ = 0;
};

TEST_F(DatasetCommandsTest, SftLearnsTheAssistantsTurnsOfAJsonArray) {
  ASSERT_EQ(Run("buttress", {"new-model", "--out", Path("new"), "--characters",
                             "0123456789+=", "--layers", "1", "--hidden", "32", "--heads", "1",
                             "--intermediate", "64", "--max-positions", "64"}),
            0)
      << output();
  Write("new/chat_template.jinja",
        "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}={% endif %}"
        "{% endfor %}");
  json rows = json::array();
  for (int i = 0; i < 40; ++i) {
    const json turns = {{{"role", "user"}, {"content", std::to_string(i % 5) + "+1="}},
                        {{"role", "assistant"}, {"content", std::to_string(i % 5 + 1)}}};
    rows.push_back({{"chat", {{"turns", turns}}}});
  }
  const std::string data = Write("rows.json", rows.dump());
  ASSERT_EQ(Run("buttress", {"sft", "--model", Path("new"), "--data", data, "--messages-field",
                             "chat.turns", "--held-out-share", "0.25", "--out", Path("out"),
                             "--steps", "60", "--batch", "8", "--lr", "1e-2", "--warmup", "5"}),
            0)
      << output();
  const std::string text = output();
  EXPECT_THAT(text, HasSubstr("sft: trained: 30 rows, 30 sequences"));
  const auto loss_at = [&text](const std::string& step) {
    const std::size_t end = text.find(" at step " + step + " (20 tokens)");
    EXPECT_NE(end, std::string::npos) << text;
    return end == std::string::npos ? 0.0 : std::stod(text.substr(text.rfind(' ', end - 1), end));
  };
  EXPECT_GT(loss_at("0"), 1.0);
  EXPECT_LT(loss_at("60"), 0.2);
  EXPECT_THAT(text, HasSubstr("at step 30 ("));
  EXPECT_TRUE(std::filesystem::exists(Path("out/model.safetensors")));
  EXPECT_EQ(Run("buttress", {"sft", "--model", Path("new"), "--data", data, "--out", Path("out")}),
            2);
  EXPECT_THAT(output(), HasSubstr("sft: " + data +
                                  ": 40 of 40 rows cannot be used:\n"
                                  "  40 rows: no field 'prompt'; the row has chat"));
}

TEST_F(DatasetCommandsTest, VerifyAndItsAuditReadFieldsOfCsvAndParquet) {
  const std::string csv = Write("a.csv", "q,out,gold,right\n1+1,2,2,true\n1+2,4,3,false\n");
  const std::vector<std::string> fields = {"--response-field", "out",  "--answer-field", "gold",
                                           "--label-field",    "right"};
  std::vector<std::string> words = {"verify", csv, "--verifier", "exact", "--json"};
  words.insert(words.end(), fields.begin(), fields.end());
  ASSERT_EQ(Run("buttress", words), 0) << output();
  EXPECT_THAT(output(), HasSubstr("\"correct\":1,\"wrong\":1"));
  EXPECT_THAT(output(), HasSubstr("\"label_agreement\":1.0"));
  words[0] = "audit-verifier";
  ASSERT_EQ(Run("buttress", words), 0) << output();
  EXPECT_THAT(output(), HasSubstr("\"false_positive\":{\"errors\":0,\"trials\":1"));
  if (BUTTRESS_HAS_ARROW) {
    ASSERT_EQ(Run("buttress", {"verify", Trl() + "/completions_00009.parquet", "--verifier",
                               "exact", "--response-field", "completion", "--answer-field",
                               "completion", "--label-field", "accuracy"}),
              0)
        << output();
    EXPECT_THAT(output(), HasSubstr("correct          4"));
  }
  EXPECT_EQ(Run("buttress", {"verify", csv}), 2);
  EXPECT_THAT(output(), HasSubstr("2 of 2 rows cannot be used"));
  EXPECT_THAT(output(), HasSubstr("2 rows: no field 'answer'; the row has q, out, gold"));
  EXPECT_THAT(output(), HasSubstr(": rows 1, 2\n"));
}

TEST_F(DatasetCommandsTest, VerifyGivesEachSourceItsVerifier) {
  const std::string rows =
      Write("a.jsonl",
            "{\"kind\": \"sum\", \"response\": \"it is 2.0\", \"answer\": \"2\"}\n"
            "{\"kind\": \"word\", \"response\": \"it is 2.0\", \"answer\": \"2\"}\n");
  ASSERT_EQ(Run("buttress", {"verify", rows, "--verifier", "exact", "--source-field", "kind",
                             "--set", "run.reward.by_source={sum: number}"}),
            0)
      << output();
  EXPECT_THAT(output(), HasSubstr("1\t0\tcorrect"));
  EXPECT_THAT(output(), HasSubstr("2\t0\twrong"));
}

TEST_F(DatasetCommandsTest, VerifyExplainsWhatItRead) {
  const std::string rows =
      Write("a.jsonl", "{\"response\": \"It is 5 or 6.\", \"answer\": \"#### 5\"}\n");
  ASSERT_EQ(Run("buttress", {"verify", rows, "--explain"}), 0) << output();
  EXPECT_THAT(output(), HasSubstr("  reference  ####: 5 read as 5\n"));
  EXPECT_THAT(output(), HasSubstr("  why        the response hedges between 5 and 6\n"));
  ASSERT_EQ(Run("buttress", {"verify", rows, "--explain", "--json"}), 0) << output();
  EXPECT_THAT(output(), HasSubstr("\"why\":\"the response hedges between 5 and 6\""));
  ASSERT_EQ(Run("buttress", {"verify", rows, "--json"}), 0) << output();
  EXPECT_THAT(output(), Not(HasSubstr("why")));
}

TEST_F(DatasetCommandsTest, ExplainReadsParquetAndLogsAndSaysWhatIsNeither) {
  if (BUTTRESS_HAS_ARROW) {
    ASSERT_EQ(Run("buttress", {"explain", Trl()}), 0) << output();
    EXPECT_THAT(output(), HasSubstr("trl dump, 2 files"));
    EXPECT_THAT(output(), HasSubstr("4 groups, 8 completions, 2 steps"));
    EXPECT_THAT(output(), HasSubstr("prompts seen in the 500 steps before: "));
  }
  const std::string state =
      Write("trainer_state.json",
            R"({"log_history": [{"step": 5, "frac_reward_zero_std": 0.5, "reward": 0.25}]})");
  ASSERT_EQ(Run("buttress", {"explain", state}), 0) << output();
  EXPECT_THAT(output(), HasSubstr("ACR 0.500 on average"));
  std::string rows;
  for (int i = 0; i < 40; ++i) rows += "{\"loss\": 1, \"lr\": 2}\n";
  EXPECT_EQ(Run("buttress", {"explain", Write("metrics.jsonl", rows)}), 2);
  const std::string text = output();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_THAT(text, HasSubstr("metrics.jsonl: the fields loss, lr belong to no known dump: verl"));
}

// Both groups of two are constant.
TEST_F(DatasetCommandsTest, ExplainEndsWithStatusOneWhereAConditionHolds) {
  std::string rows;
  for (const char* prompt : {"a", "a", "b", "b"})
    rows += std::string(R"({"step": 1, "prompt": ")") + prompt +
            R"(", "completion": "x", "reward": 1})" + "\n";
  const std::string dump = Write("rows.jsonl", rows);
  EXPECT_EQ(Run("buttress", {"explain", dump, "--fail-if", "acr < 1"}), 0) << output();
  EXPECT_EQ(Run("buttress", {"explain", dump, "--watch", "600", "--fail-if", "acr < 1", "--fail-if",
                             "acr >= 1"}),
            1)
      << output();
  EXPECT_THAT(output(), HasSubstr("the condition holds: acr >= 1"));
  EXPECT_EQ(Run("buttress", {"explain", dump, "--fail-if", "arc > 1"}), 2);
  EXPECT_THAT(output(), HasSubstr("the report has no number arc; it has "));
}

TEST_F(DatasetCommandsTest, SettingsAreFoundByWords) {
  ASSERT_EQ(Run("coordinator", {"--describe-config", "group_size"}), 0) << output();
  EXPECT_THAT(output(), HasSubstr("run.sampling.group_size  (8)"));
  EXPECT_THAT(output(), HasSubstr("as YAML, with the defaults:\nrun:\n"));
  EXPECT_THAT(output(), HasSubstr("\n    group_size: 8\n"));
  EXPECT_THAT(output(), Not(HasSubstr("run.optim.lr")));
  ASSERT_EQ(Run("coordinator", {"--describe-config"}), 0) << output();
  EXPECT_THAT(output(), HasSubstr("run.optim.lr  ("));
  EXPECT_EQ(Run("coordinator", {"--describe-config", "grup_size"}), 2);
  EXPECT_THAT(output(), HasSubstr("did you mean 'run.sampling.group_size'?"));
}

// Bad rows behind the first hundred are found by the coordinator, others by launch itself.
TEST_F(DatasetCommandsTest, ARunWithManyBadRowsNamesTheFileOfAllLast) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const std::string good = TextOf(TinyTask::Get().folder() + "/train.jsonl");
  std::string bad;
  for (int i = 0; i < 300; ++i) bad += "{\"prompt\": \"1234>10:\"}\n";
  const std::string yaml = Write("run.yaml", TinyRunYaml(Path("out"), 5));
  const std::string file = Path("out/data/bad_rows_prompts.txt");
  for (const bool first : {true, false}) {
    const std::string rows = Write("rows.jsonl", first ? bad + good : good + bad);
    EXPECT_EQ(Run("buttress", {"launch", yaml, "--set", "run.data.prompts=" + rows}), 2)
        << output();
    const std::string text = output();
    EXPECT_THAT(text, HasSubstr("300 of 2300 rows cannot be used:\n"));
    EXPECT_THAT(text, HasSubstr("\n  300 rows: no field 'answer'"));
    EXPECT_THAT(text, HasSubstr(", ...\nall of them: " + file + "\n"));
    const std::string all = TextOf(file);
    EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 300);
    const std::string last = first ? file : Path("out/logs/coordinator.log");
    EXPECT_THAT(text, EndsWith(last + "\n"));
  }
}

}  // namespace
}  // namespace buttress::dataset_commands_test
