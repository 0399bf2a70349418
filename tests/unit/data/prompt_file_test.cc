#include "lib/data/prompt_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kTemplate =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt "
    "%}<assistant>{% endif %}";

class PromptFileTest : public testing::Test {
 protected:
  Result<std::unique_ptr<PromptFile>> Open(const std::string& jsonl, const Tokenizer& tokenizer) {
    const std::string path = JoinPath(folder_.path(), "prompts.jsonl");
    EXPECT_TRUE(WriteFileAtomic(path, jsonl).ok());
    BUTTRESS_ASSIGN_OR_RETURN(auto file, PromptFile::Open(path, config_, tokenizer, answers_));
    BUTTRESS_ASSIGN_OR_RETURN(dropped_, file->CheckRows(/*stop=*/false));
    return file;
  }

  Result<std::unique_ptr<PromptFile>> Open(const std::string& jsonl) {
    return Open(jsonl, tokenizer_);
  }

  static std::string Text(const Prompt& prompt) {
    return {prompt.token_ids.begin(), prompt.token_ids.end()};
  }

  TempDir folder_;
  DataConfig config_;
  AnswerForms answers_;
  DroppedRows dropped_;
  ByteTokenizer tokenizer_;
};

TEST_F(PromptFileTest, RowsBecomePromptsAndOtherFieldsStayJson) {
  const auto file = Open(
      "{\"id\": \"a\", \"source\": \"s\", \"prompt\": \"hi\", \"answer\": \"4\", \"numbers\": [1, "
      "2]}\n"
      "\n"
      "{\"prompt\": \"ho\", \"answer\": 7}\n");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  ASSERT_EQ((*file)->size(), 2U);
  const auto first = (*file)->Read(0);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->id, "a");
  EXPECT_EQ(first->source, "s");
  EXPECT_EQ(Text(*first), "hi");
  EXPECT_EQ(first->answer, "4");
  EXPECT_EQ(nlohmann::json::parse(first->extra_json)["numbers"], nlohmann::json({1, 2}));
  EXPECT_TRUE(nlohmann::json::parse(first->extra_json)["prompt"].is_string()) << "as in the row";
  const auto second = (*file)->Read(1);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->id, "3");  // its line
  EXPECT_EQ(second->source, "default");
  EXPECT_EQ(second->answer, "7");
}

TEST_F(PromptFileTest, PromptsThatTheModelGetsAlikeHaveEqualHashes) {
  const std::string rows =
      "{\"prompt\": \"hi\", \"answer\": \"4\"}\n"
      "{\"prompt\": [{\"role\": \"user\", \"content\": \"hi\"}], \"answer\": \"5\"}\n"
      "{\"prompt\": \"ho\", \"answer\": \"4\"}\n";
  const ByteTokenizer tokenizer(kTemplate);
  config_.chat_template = true;
  const auto chat = (*Open(rows, tokenizer))->SortedHashes();
  ASSERT_TRUE(chat.ok());
  ASSERT_EQ(chat->size(), 3U);
  EXPECT_NE(std::ranges::adjacent_find(*chat), chat->end());
  EXPECT_TRUE(std::ranges::is_sorted(*chat));
  config_.system_prompt = "be kind";
  const auto told = *(*Open(rows, tokenizer))->SortedHashes();
  EXPECT_EQ(std::ranges::adjacent_find(told), told.end());
}

TEST_F(PromptFileTest, FieldNamesComeFromTheConfiguration) {
  config_.prompt_field = "question";
  config_.answer_field = "target";
  const auto file = Open("{\"question\": \"q\", \"target\": {\"x\": 1}}\n");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ((*file)->Read(0)->answer, "{\"x\":1}");
}

constexpr const char* kVerlRow =
    R"({"data_source": "openai/gsm8k", "prompt": [{"role": "user", "content": "1+1?"}], )"
    R"("ability": "math", "reward_model": {"style": "rule", "ground_truth": "2"}, )"
    R"("extra_info": {"index": 5, "split": "train"}})"
    "\n";

TEST_F(PromptFileTest, ARowOfVerlNeedsSettingsAlone) {
  const ByteTokenizer chat(kTemplate);
  config_.answer_field = "reward_model.ground_truth";
  config_.source_field = "data_source";
  config_.id_field = "extra_info.index";
  answers_.otherwise = AnswerForm::kText;
  const auto file = Open(kVerlRow, chat);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const auto prompt = (*file)->Read(0);
  EXPECT_EQ(Text(*prompt), "<user>1+1?<assistant>");
  EXPECT_EQ(prompt->answer, "2");
  EXPECT_EQ(prompt->source, "openai/gsm8k");
  EXPECT_EQ(prompt->id, "5");
  const auto row = nlohmann::json::parse(prompt->extra_json);
  EXPECT_EQ(row["extra_info"]["split"], "train");
  EXPECT_EQ(row["ability"], "math");
  EXPECT_EQ(row["prompt"][0]["content"], "1+1?");
}

TEST_F(PromptFileTest, AFieldOfTheLiteralNameComesBeforeADottedPath) {
  config_.prompt_field = "in.q";
  config_.answer_field = "a.b";
  config_.id_field = "x.y.z";
  const auto file =
      Open(R"({"in": {"q": "deep", "more": 1}, "a.b": "literal", "a": {"b": "deep"}, )"
           R"("x.y": {"z": 1.5}})"
           "\n");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const auto prompt = (*file)->Read(0);
  EXPECT_EQ(Text(*prompt), "deep");
  EXPECT_EQ(prompt->answer, "literal");
  EXPECT_EQ(prompt->id, "1.5");
  EXPECT_EQ(nlohmann::json::parse(prompt->extra_json)["in"], nlohmann::json({{"more", 1}}));
}

TEST_F(PromptFileTest, AnAnswerThatTheVerifierCannotReadIsRefused) {
  const ByteTokenizer chat(kTemplate);
  config_.answer_field = "reward_model";
  answers_ = {AnswerForm::kText, {{"list", AnswerForm::kTextOrList}, {"any", AnswerForm::kAny}}};
  EXPECT_THAT(Open(kVerlRow, chat).status().message(),
              HasSubstr("line 1: 'reward_model' is an object with reward_model.style, "
                        "reward_model.ground_truth; the row's verifier needs a text"));
  config_.answer_field = "a";
  const auto open = [&](const std::string& source, const std::string& answer) {
    return Open(R"({"prompt": "x", "source": ")" + source + R"(", "a": )" + answer + "}\n");
  };
  for (const char* text : {"7", "true", "\"seven\"", "1.5"}) EXPECT_TRUE(open("s", text).ok());
  EXPECT_THAT(open("s", "null").status().message(), HasSubstr("'a' is null"));
  EXPECT_THAT(open("s", "[1, 2]").status().message(), HasSubstr("'a' is a list of 2"));
  EXPECT_THAT(open("list", "{}").status().message(), HasSubstr("an object with nothing"));
  EXPECT_EQ((*open("list", "[1]"))->Read(0)->answer, "[1]");
  EXPECT_EQ((*open("any", "{\"t\": 1}"))->Read(0)->answer, "{\"t\":1}");
  config_.answer_field = "";
  EXPECT_EQ((*open("any", "1"))->Read(0)->answer, "");
  EXPECT_THAT(open("s", "1").status().message(), HasSubstr("answer_field is empty"));
}

TEST_F(PromptFileTest, AMissingFieldIsReportedWithThoseThatAreThere) {
  config_.answer_field = "reward_model.answer";
  const ByteTokenizer chat(kTemplate);
  EXPECT_THAT(Open(kVerlRow, chat).status().message(),
              HasSubstr("no field 'reward_model.answer'; 'reward_model' has style, ground_truth;"));
  config_.answer_field = "ability.name";
  EXPECT_THAT(Open(kVerlRow, chat).status().message(), HasSubstr("'ability' is string"));
  config_.answer_field = "solution";
  EXPECT_THAT(Open(kVerlRow, chat).status().message(),
              HasSubstr("no field 'solution'; the row has data_source, prompt, ability, "));
}

TEST_F(PromptFileTest, PromptsThatAreTooLongAreDroppedIfConfigured) {
  config_.max_prompt_tokens = 5;
  config_.over_long = OverLong::kDrop;
  std::string jsonl = "{\"prompt\": \"short\", \"answer\": \"1\"}\n";
  const std::string longer = "{\"prompt\": \"longer\", \"answer\": \"1\"}\n";
  auto file = Open(jsonl + longer + longer);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(dropped_.count, 2U);
  EXPECT_EQ(dropped_.first, "2, 3");
  EXPECT_TRUE((*file)->Read(0).ok());
  EXPECT_EQ((*file)->Read(1).status().code(), StatusCode::kOutOfRange);
  EXPECT_THAT(Open(longer).status().message(), HasSubstr("every prompt is longer"));
  for (int i = 0; i < 25; ++i) jsonl += longer;
  ASSERT_TRUE(Open(jsonl).ok());
  EXPECT_EQ(dropped_.count, 25U);
  EXPECT_THAT(dropped_.first, AllOf(HasSubstr(", 21, ..."), Not(HasSubstr("22"))));
}

TEST_F(PromptFileTest, RowsOfOtherFormatsAreReportedByNumber) {
  const std::string path = JoinPath(folder_.path(), "prompts.csv");
  ASSERT_TRUE(WriteFileAtomic(path, "prompt,answer,id\nx,1,a\ny,2,a\n").ok());
  const auto file = PromptFile::Open(path, config_, tokenizer_);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ((*file)->Read(1)->answer, "2");
  EXPECT_THAT((*file)->CheckRows(/*stop=*/false).status().message(),
              HasSubstr("row 2: id 'a' appears in row 1 already"));
}

TEST_F(PromptFileTest, EveryBadRowIsReportedWithItsLine) {
  config_.max_prompt_tokens = 5;
  const auto file = Open(
      "{\"id\": \"a\", \"prompt\": \"ok\", \"answer\": \"\"}\n"
      "not json\n"
      "[1]\n"
      "{\"answer\": \"1\"}\n"
      "{\"prompt\": \"x\"}\n"
      "{\"prompt\": 5, \"answer\": \"1\"}\n"
      "{\"prompt\": \"\", \"answer\": \"1\"}\n"
      "{\"prompt\": \"123456\", \"answer\": \"1\"}\n"
      "{\"id\": \"a\", \"prompt\": \"x\", \"answer\": \"1\"}\n"
      "{\"prompt\": [{\"role\": \"user\"}], \"answer\": \"1\"}\n");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      file.status().message(),
      AllOf(HasSubstr("9 of 10 rows"), Not(HasSubstr("line 1:")), HasSubstr("line 2: not JSON"),
            HasSubstr("line 3: expected an object"), HasSubstr("line 4: no field 'prompt'"),
            HasSubstr("line 5: no field 'answer'"), HasSubstr("line 6: 'prompt': expected text"),
            HasSubstr("line 7: 'prompt' is empty"),
            HasSubstr("line 8: the prompt has 6 tokens, at most 5"),
            HasSubstr("line 9: id 'a' appears in line 1"),
            HasSubstr("line 10: 'prompt': message 0: no content")));
}

TEST_F(PromptFileTest, AllBadRowsAreInTheFileThatEndsTheMessage) {
  std::string jsonl = "{\"prompt\": \"x\", \"answer\": \"1\"}\n";
  for (int i = 0; i < 300; ++i) jsonl += "{\"prompt\": \"x\"}\n";
  const std::string path = JoinPath(folder_.path(), "prompts.jsonl");
  const std::string log = JoinPath(folder_.path(), "out/bad.txt");
  ASSERT_TRUE(WriteFileAtomic(path, jsonl).ok());
  const auto file = PromptFile::Open(path, config_, tokenizer_);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const std::string message = (*file)->CheckRows(/*stop=*/false, log).status().message();
  EXPECT_THAT(message, HasSubstr("300 of 301 rows cannot be used:\n  300 rows: no field 'answer'"));
  EXPECT_THAT(message, testing::EndsWith(": lines 2, 3, 4, 5, 6, ...\nall of them: " + log));
  EXPECT_THAT(*ReadFile(log), HasSubstr("line 301: no field 'answer'; the row has prompt;"));
}

TEST_F(PromptFileTest, ARowThatIsNestedTooDeeplyIsRefused) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  const auto file = Open("{\"prompt\": \"x\", \"answer\": " + deep + "}\n");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.status().message(), HasSubstr("nested deeper"));
}

TEST_F(PromptFileTest, OpeningParsesNothingAndReadingParsesOneRow) {
  const std::string jsonl =
      "not json\n{\"prompt\": \"x\", \"answer\": \"1\"}\n\n{\"prompt\": \"y\", \"answer\": \"2\"}";
  const std::string path = JoinPath(folder_.path(), "prompts.jsonl");
  ASSERT_TRUE(WriteFileAtomic(path, jsonl).ok());
  const auto file = PromptFile::Open(path, config_, tokenizer_);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  ASSERT_EQ((*file)->size(), 3U);
  EXPECT_EQ((*file)->sha256(), ToHex(Sha256Of(jsonl)));
  EXPECT_EQ((*file)->Read(1)->answer, "1");
  EXPECT_EQ((*file)->Read(2)->answer, "2");
  EXPECT_EQ((*file)->Read(2)->id, "4");
  const Status bad = (*file)->Read(0).status();
  EXPECT_EQ(bad.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(bad.message(), HasSubstr("prompts.jsonl, line 1: not JSON"));
  EXPECT_EQ((*file)->CheckRows(/*stop=*/true).status().code(), StatusCode::kCancelled);
}

TEST_F(PromptFileTest, RowsMayCrossTheBlocksInWhichTheFileIsRead) {
  std::string jsonl;
  const std::string filler(700000, 'f');
  for (int i = 0; i < 5; ++i)
    jsonl += "{\"prompt\": \"x\", \"answer\": \"" + std::to_string(i) + "\", \"filler\": \"" +
             filler + "\"}\n \n";
  const auto file = Open(jsonl);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  ASSERT_EQ((*file)->size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ((*file)->Read(i)->answer, std::to_string(i));
    EXPECT_EQ((*file)->Read(i)->id, std::to_string(2 * i + 1));
  }
  EXPECT_EQ((*file)->sha256(), ToHex(Sha256Of(jsonl)));
}

TEST_F(PromptFileTest, AnEmptyFileIsRefused) {
  EXPECT_THAT(Open("\n").status().message(), HasSubstr("contains no prompts"));
}

TEST_F(PromptFileTest, AChangedFileIsAnError) {
  const auto file = Open("{\"prompt\": \"x\", \"answer\": \"1\"}\n");
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(::truncate(JoinPath(folder_.path(), "prompts.jsonl").c_str(), 3), 0);
  EXPECT_EQ((*file)->Read(0).status().code(), StatusCode::kDataLoss);
}

TEST_F(PromptFileTest, MessagesAreRenderedWithTheChatTemplate) {
  const ByteTokenizer chat(kTemplate);
  const auto file = Open(
      "{\"prompt\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": "
      "\"u\"}], \"answer\": \"1\"}\n",
      chat);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(Text(*(*file)->Read(0)), "<system>s<user>u<assistant>");
}

TEST_F(PromptFileTest, TextIsRenderedWithTheSystemPromptAndTheTemplateIfConfigured) {
  const ByteTokenizer chat(kTemplate);
  config_.chat_template = true;
  config_.system_prompt = "be brief";
  const auto file = Open("{\"prompt\": \"u\", \"answer\": \"1\"}\n", chat);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(Text(*(*file)->Read(0)), "<system>be brief<user>u<assistant>");
}

TEST_F(PromptFileTest, AChatTemplateThatTheModelLacksIsAnError) {
  config_.chat_template = true;
  EXPECT_THAT(Open("{\"prompt\": \"u\", \"answer\": \"1\"}\n").status().message(),
              HasSubstr("no chat template"));
}

}  // namespace
}  // namespace buttress
