#include "lib/data/prompt_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/os/file.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

class PromptSetTest : public testing::Test {
 protected:
  SourceConfig& Add(const std::string& name, const std::string& file, const std::string& text) {
    SourceConfig& source = run_.data.sources[name];
    source.prompts = JoinPath(folder_.path(), file);
    EXPECT_TRUE(WriteFileAtomic(source.prompts, text).ok());
    return source;
  }

  TempDir folder_;
  ByteTokenizer tokenizer_;
  RunSettings run_;
};

TEST_F(PromptSetTest, SourcesOfSeveralFormatsHaveTheirOwnFieldsAndRowsInTheOrderOfNames) {
  SourceConfig& csv = Add("csv", "rows.csv", "question,solution\n2+2=,4\n3+3=,6\n");
  csv.prompt_field = "question";
  csv.answer_field = "solution";
  Add("json", "rows.json", R"([{"prompt": "x", "answer": "1", "source": "mine", "id": "a/b"}])");
  const auto set = PromptSet::Open(run_, tokenizer_);
  ASSERT_TRUE(set.ok()) << set.status().ToString();
  ASSERT_EQ(set->sources().size(), 2u);
  EXPECT_EQ(set->size(), 3u);
  EXPECT_EQ(set->sources()[1].first_row, 2u);
  const auto first = set->sources()[0].file->Read(1);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->id, "csv/2");
  EXPECT_EQ(first->source, "csv");
  EXPECT_EQ(first->answer, "6");
  const auto other = set->sources()[1].file->Read(0);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->id, "json/a/b");
  EXPECT_EQ(other->source, "json");
  EXPECT_THAT(other->extra_json, HasSubstr(R"("source":"mine")"));
}

TEST_F(PromptSetTest, ErrorsNameTheSettingOfTheSource) {
  Add("ok", "ok.jsonl", "{\"prompt\": \"x\", \"answer\": \"1\"}\n");
  SourceConfig& source = Add("long", "long.jsonl", "{\"prompt\": \"xx\", \"answer\": \"1\"}\n");
  source.max_prompt_tokens = 1;
  const auto set = PromptSet::Open(run_, tokenizer_);
  ASSERT_TRUE(set.ok());
  EXPECT_THAT(set->sources()[0].file->Read(0).status().message(),
              HasSubstr("raise run.data.sources.long.max_prompt_tokens, or set "
                        "run.data.sources.long.over_long to drop"));
  EXPECT_TRUE(set->sources()[1].file->Read(0).ok());
  source.over_long = OverLong::kDrop;
  EXPECT_EQ(PromptSet::Open(run_, tokenizer_)->sources()[0].file->Read(0).status().code(),
            StatusCode::kOutOfRange);
  source.chat_template = true;
  EXPECT_THAT(PromptSet::Open(run_, tokenizer_).status().message(),
              HasSubstr("run.data.sources.long.chat_template is true, but the model has no"));
}

TEST_F(PromptSetTest, TheVerifierOfASourceDecidesWhichAnswersItsRowsMayHave) {
  Add("sums", "sums.jsonl", "{\"prompt\": \"x\", \"answer\": [1]}\n");
  EXPECT_THAT(PromptSet::Open(run_, tokenizer_)->sources()[0].file->Read(0).status().message(),
              HasSubstr("name its field in run.data.sources.sums.answer_field"));
  run_.reward.by_source["sums"] = "countdown";
  EXPECT_TRUE(PromptSet::Open(run_, tokenizer_)->sources()[0].file->Read(0).ok());
}

}  // namespace
}  // namespace buttress
