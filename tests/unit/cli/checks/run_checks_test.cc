#include "cli/checks/run_checks.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/prepare/new_model.h"
#include "lib/base/os/file.h"
#include "lib/checks/data_checks.h"
#include "lib/checks/model_checks.h"
#include "lib/weights/safetensors.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kPositions = 16;

// A model of one tensor and a file of three prompts.
class RunChecksTest : public ::testing::Test {
 protected:
  RunChecksTest() {
    const std::string model = dir_.path() + "/model";
    NewModelOptions options;
    options.characters = "0123456789>";
    options.max_positions = kPositions;
    EXPECT_TRUE(WriteNewModel(options, model).ok());
    auto writer =
        SafetensorsWriter::Create(model + "/model.safetensors", {{"a", "F32", {2, 3}}}, {});
    EXPECT_TRUE(writer.ok() && (*writer)->Append(std::string(24, '\0')).ok());
    EXPECT_TRUE((*writer)->Finish().ok());
    run_.model.path = model;
    run_.data.prompts = dir_.path() + "/prompts.jsonl";
    run_.data.max_prompt_tokens = 8;
    run_.sampling.max_tokens = 8;
    Write(R"({"prompt": "12>", "answer": "3"})");
  }

  // Rows of different prompts, "FROM>" and so on.
  static std::string Rows(int from, int count, const std::string& answer = "3") {
    std::string rows;
    for (int i = from; i < from + count; ++i)
      rows += fmt::format("{{\"prompt\": \"{}>\", \"answer\": {}}}\n", i, answer);
    return rows;
  }

  // The warnings of these prompts and held-out prompts, a line each.
  std::string Warnings(const std::string& rows, const std::string& held_out) {
    Write(rows);
    run_.data.held_out = dir_.path() + "/held_out.jsonl";
    EXPECT_TRUE(WriteFileAtomic(run_.data.held_out, held_out).ok());
    std::string warnings;
    const Findings findings = Check();
    for (const auto& [severity, check, text] : findings.list())
      if (severity == Severity::kWarning) warnings += check + ": " + text + "\n";
    return warnings;
  }

  void Write(const std::string& rows) {
    EXPECT_TRUE(WriteFileAtomic(run_.data.prompts, rows + "\n").ok());
  }

  // What the checks of model and prompts find.
  Findings Check() const {
    Findings findings;
    const ModelFacts model = CheckModel(run_, findings);
    CheckPrompts(run_, model, 100, /*out=*/"", findings);
    return findings;
  }

  std::string Errors() const { return Check().Verdict().message(); }

  std::string File(const std::string& name) const { return JoinPath(run_.model.path, name); }

  TempDir dir_;
  RunSettings run_;
};

TEST_F(RunChecksTest, AWholeRunHasNeitherErrorsNorWarnings) {
  Write(Rows(100, 50));
  const Findings findings = Check();
  EXPECT_EQ(findings.list().size(), 5u);
  for (const Finding& finding : findings.list())
    EXPECT_EQ(finding.severity, Severity::kOk) << finding.check << ": " << finding.text;
}

TEST_F(RunChecksTest, EveryErrorIsInOneMessage) {
  std::filesystem::remove(File("tokenizer.json"));
  std::filesystem::remove(File("model.safetensors"));
  run_.data.prompts = dir_.path();
  EXPECT_THAT(Errors(), AllOf(HasSubstr("weights: "), HasSubstr("tokenizer: "),
                              HasSubstr("run.data.prompts: " + dir_.path() + " is a folder")));
  EXPECT_EQ(ExitCode(Check().Verdict()), 2);
}

TEST_F(RunChecksTest, AModelPathThatIsNoFolderIsNamed) {
  run_.model.path = "Qwen/Qwen2.5-0.5B";
  EXPECT_THAT(Errors(), HasSubstr("name of Hugging Face's hub"));
  run_.model.path = run_.data.prompts;
  EXPECT_THAT(Errors(), HasSubstr("is a file; name the folder"));
  run_.model.path = dir_.path() + "/none";
  EXPECT_THAT(Errors(), HasSubstr("no folder " + run_.model.path));
}

TEST_F(RunChecksTest, ATokenizerMustFitTheVocabulary) {
  auto config = nlohmann::json::parse(*ReadFile(File("config.json")));
  config["vocab_size"] = 5;
  config["eos_token_id"] = config["pad_token_id"] = 1;
  std::filesystem::remove(File("generation_config.json"));
  ASSERT_TRUE(WriteFileAtomic(File("config.json"), config.dump()).ok());
  EXPECT_THAT(Errors(), HasSubstr("tokens, the model's vocabulary 5"));
}

TEST_F(RunChecksTest, PromptAndCompletionMustFitThePositions) {
  run_.data.max_prompt_tokens = 100;
  run_.sampling.max_tokens = 12;  // and four of a prompt
  Write(Rows(100, 50));
  const Findings fits = Check();
  for (const Finding& finding : fits.list()) EXPECT_EQ(finding.severity, Severity::kOk);
  run_.sampling.max_tokens = 13;
  EXPECT_THAT(Errors(), HasSubstr("the prompt has 4 tokens and a completion up to 13 (max_tokens), "
                                  "but the model has 16 positions; lower max_tokens, or set"));
  run_.sampling.max_tokens = kPositions;
  EXPECT_THAT(Errors(), HasSubstr("leave no place for a prompt"));
}

// Raising max_prompt_tokens helps only as far as the model reads.
TEST_F(RunChecksTest, MaxPromptTokensIsRaisedOnlyWhereTheModelHasThePositions) {
  run_.data.max_prompt_tokens = 2;
  EXPECT_THAT(Errors(), HasSubstr("raise run.data.max_prompt_tokens"));
  Write(R"({"prompt": "1234567890123456>", "answer": "3"})");
  EXPECT_THAT(Errors(), AllOf(HasSubstr("shorten it, or set run.data.over_long to drop"),
                              Not(HasSubstr("raise"))));
}

TEST_F(RunChecksTest, PromptsThatAreDroppedAreCounted) {
  run_.data.over_long = OverLong::kDrop;
  Write(R"({"prompt": "123456789>", "answer": "3"})");
  EXPECT_THAT(Errors(), HasSubstr("all 1 rows are too long"));
  Write(Rows(123456789, 1) + Rows(100, 50));
  EXPECT_EQ(Errors(), "");
  EXPECT_THAT(Check().list().back().text,
              HasSubstr("51 rows read (1 too long, which are dropped), prompts of 4 tokens"));
  Findings findings;
  const ModelFacts model = CheckModel(run_, findings);
  const auto tried = TryRows(run_, *model.tokenizer);
  ASSERT_TRUE(tried.ok()) << tried.status().ToString();
  EXPECT_EQ(tried->front().prompt, "100>");
}

TEST_F(RunChecksTest, AMissingFieldIsShownWithThoseThatTheRowsHave) {
  Write(R"({"prompt": "12>", "anwser": "3"})");
  EXPECT_THAT(Errors(), AllOf(HasSubstr("1 of 1 rows cannot be used"),
                              HasSubstr("did you mean 'anwser'? Choose one of: prompt, anwser")));
}

TEST_F(RunChecksTest, AnEqualFaultOfManyRowsIsOneLine) {
  Write(Rows(100, 20));
  run_.data.answer_field = "gold";
  EXPECT_THAT(Errors(),
              AllOf(HasSubstr("prompts.jsonl: 20 of 20 rows cannot be used:\n    the first row "),
                    HasSubstr("\n  20 rows: no field 'gold'"),
                    HasSubstr("the answer: lines 1, 2, 3, 4, 5, ...")));
}

TEST_F(RunChecksTest, AnEmptyAnswerIsAWarning) {
  Write(Rows(100, 50, "null"));
  const Finding last = Check().list().back();
  EXPECT_EQ(last.severity, Severity::kWarning);
  EXPECT_THAT(last.text, HasSubstr("50 of the first 50 rows have an empty answer"));
}

TEST_F(RunChecksTest, HeldOutPromptsThatAreTrainedOnAreAWarning) {
  EXPECT_EQ(Warnings(Rows(100, 200), Rows(300, 60)), "");
  EXPECT_THAT(Warnings(Rows(100, 200), Rows(250, 60)),
              StartsWith("run.data.held_out: 50 of 60 held-out prompts are also in "
                         "run.data.prompts: its accuracy is not held out; "));
  run_.data.held_out = run_.data.prompts;
  EXPECT_THAT(Check().list().back().text, HasSubstr("200 of 200 held-out prompts are also in"));
}

TEST_F(RunChecksTest, EverySourceIsComparedWithTheHeldOutPrompts) {
  const std::string other = dir_.path() + "/other.jsonl";
  ASSERT_TRUE(WriteFileAtomic(other, Rows(300, 60)).ok());
  run_.data.sources["a"].prompts = run_.data.prompts;
  run_.data.sources["b"].prompts = other;
  EXPECT_THAT(Warnings(Rows(100, 60), Rows(310, 50)),
              StartsWith("run.data.held_out: 50 of 50 held-out prompts are also in "
                         "run.data.sources.b.prompts: "));
}

TEST_F(RunChecksTest, ManyRowsWithTheSamePromptAreAWarning) {
  EXPECT_EQ(Warnings(Rows(100, 100) + Rows(100, 11), Rows(300, 60)), "");
  EXPECT_THAT(Warnings(Rows(100, 100) + Rows(100, 100, "4"), Rows(300, 60)),
              StartsWith("run.data.prompts: 100 of 200 rows have the prompt of an earlier row"));
  EXPECT_THAT(Warnings(Rows(100, 100), Rows(300, 60) + Rows(300, 60)),
              StartsWith("run.data.held_out: 60 of 120 rows have the prompt of an earlier row"));
}

TEST_F(RunChecksTest, FewPromptsAreAWarning) {
  EXPECT_THAT(Warnings(Rows(100, 7), Rows(300, 4)),
              AllOf(HasSubstr("run.data.prompts: 7 different prompts are few: "),
                    HasSubstr("run.data.held_out: 4 different prompts are few: an accuracy of "
                              "50 % has an interval of +-49 points")));
}

TEST_F(RunChecksTest, EpisodesMayShareAPrompt) {
  run_.env.kind = EnvKind::kBuiltin;
  EXPECT_EQ(Warnings(Rows(100, 1) + Rows(100, 1, "4"), Rows(300, 60)), "");
}

TEST_F(RunChecksTest, ChatPromptsNeedAChatTemplate) {
  Write(R"({"prompt": [{"role": "user", "content": "12>"}], "answer": "3"})");
  EXPECT_THAT(Errors(), HasSubstr("the model has no chat template"));
}

TEST_F(RunChecksTest, RowsAreTriedWithTheirAnswerAndWithAWrongOne) {
  Findings findings;
  const ModelFacts model = CheckModel(run_, findings);
  const auto rows = TryRows(run_, *model.tokenizer);
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_EQ(rows->front().prompt, "12>");
  EXPECT_EQ(rows->front().gold.outcome, Outcome::kCorrect);
  EXPECT_EQ(rows->front().wrong.outcome, Outcome::kWrong);
}

TEST_F(RunChecksTest, ResponsesOfARowAreTriedAsOneGroup) {
  Findings findings;
  const ModelFacts model = CheckModel(run_, findings);
  const auto rows = TryRows(run_, *model.tokenizer, [](const std::string& row) {
    EXPECT_THAT(row, HasSubstr("\"answer\":\"3\""));
    return Result<std::vector<std::string>>({"3", "4"});
  });
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  ASSERT_EQ(rows->front().given.size(), 2u);
  EXPECT_EQ(rows->front().given[0].outcome, Outcome::kCorrect);
  EXPECT_EQ(rows->front().given[1].outcome, Outcome::kWrong);
}

TEST_F(RunChecksTest, EverySourceIsCheckedWithItsOwnSettings) {
  const std::string sums = run_.data.prompts, chats = dir_.path() + "/chats.jsonl";
  ASSERT_TRUE(WriteFileAtomic(chats, "{\"ask\": \"3>\", \"note\": \"1\"}\n").ok());
  run_.data.prompts.clear();
  run_.data.sources["sums"].prompts = sums;
  SourceConfig& other = run_.data.sources["other"];
  other.prompts = chats;
  EXPECT_THAT(Errors(), HasSubstr("run.data.sources.other.prompt_field"));
  other.prompt_field = "ask";
  other.answer_field = "";
  EXPECT_EQ(Errors(), "");
  run_.reward.by_source["other"] = "length";
  Findings findings;
  const ModelFacts model = CheckModel(run_, findings);
  const auto rows = TryRows(run_, *model.tokenizer);
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].id, "other/1");
  EXPECT_EQ((*rows)[0].wrong.outcome, Outcome::kCorrect);  // it has a length
  EXPECT_EQ((*rows)[1].source, "sums");
  EXPECT_EQ((*rows)[1].wrong.outcome, Outcome::kWrong);
  CheckReward(run_, *model.tokenizer, findings);
  EXPECT_THAT(findings.list().back().text, HasSubstr("length, exact: 1 of 2 reference answers"));
}

TEST_F(RunChecksTest, ARewardThatCannotScoreAnyRowIsAnError) {
  const std::string file = dir_.path() + "/rewards.py";
  ASSERT_TRUE(
      WriteFileAtomic(file, "def f(completions, **_):\n    raise ValueError('nope')\n").ok());
  Findings findings;
  const ModelFacts model = CheckModel(run_, findings);
  run_.reward.verifier = "python:" + file + ":f";
  CheckReward(run_, *model.tokenizer, findings);
  EXPECT_THAT(findings.Verdict().message(),
              AllOf(HasSubstr("could score none of the first 1 rows"), HasSubstr("nope")));
}

// The folder local.out as a launch finds it.
class RunFolderTest : public ::testing::Test {
 protected:
  RunFolderTest() { config_.local.out = JoinPath(dir_.path(), "out"); }

  void Put(const std::string& name) const {
    EXPECT_TRUE(MakeFolders(config_.local.out).ok());
    EXPECT_TRUE(WriteFileAtomic(JoinPath(config_.local.out, name), "x").ok());
  }

  std::string Errors(bool fresh, const std::string& run_file = "run.yaml") const {
    Findings findings;
    CheckRunFolder(config_, run_file, fresh, findings);
    return findings.Verdict().message();
  }

  TempDir dir_;
  RunConfig config_;
};

TEST_F(RunFolderTest, WhatIsNoFolderOfARunIsNeitherFilledNorMoved) {
  for (const char* name : {"thesis.txt", "data.jsonl", "a", "b", "c"}) Put(name);
  for (const bool fresh : {false, true}) {
    EXPECT_THAT(Errors(fresh), AllOf(HasSubstr("holds a, b, c, data.jsonl and 1 more"),
                                     HasSubstr("Name a folder that is empty")));
  }
}

TEST_F(RunFolderTest, AnAbsentFolderAnEmptyOneAndOneOfARunAreFine) {
  EXPECT_EQ(Errors(false) + Errors(true), "");
  ASSERT_TRUE(MakeFolders(config_.local.out).ok());
  EXPECT_EQ(Errors(false) + Errors(true), "");
  Put("launch.lock");
  Put("notes.txt");
  EXPECT_EQ(Errors(false) + Errors(true), "");
}

TEST_F(RunFolderTest, TheBadRowsOfARefusedStartAreNoObstacle) {
  ASSERT_TRUE(MakeFolders(JoinPath(config_.local.out, "data")).ok());
  Put("data/bad_rows_prompts.txt");
  EXPECT_EQ(Errors(false) + Errors(true), "");
  Put("data/photo.png");
  EXPECT_THAT(Errors(false), HasSubstr("is not the folder of a run, and holds data"));
}

TEST_F(RunFolderTest, TheRunFileMayLieInTheFolderButIsNotMoved) {
  Put("run.yaml");
  const std::string run_file = JoinPath(config_.local.out, "run.yaml");
  EXPECT_EQ(Errors(false, run_file) + Errors(true, run_file), "");
  Put("ledger.db");
  EXPECT_EQ(Errors(false, run_file), "");
  EXPECT_THAT(Errors(true, run_file), HasSubstr("Copy the run file to another folder"));
}

}  // namespace
}  // namespace buttress
