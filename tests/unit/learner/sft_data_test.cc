#include "learner/sft/sft_data.h"

#include <gmock/gmock.h>

#include <set>

#include "lib/base/os/file.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTemplate[] =
    "{% for t in tools or [] %}[{{ t }}]{% endfor %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}${% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

class SftDataTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.ends = {'$'};
    options_.max_tokens = 100;
    options_.vocab_size = 256;
  }

  Result<SftData> Read(const std::string& name, const std::string& text) {
    options_.path = JoinPath(folder_.path(), name);
    EXPECT_TRUE(WriteFileAtomic(options_.path, text).ok());
    return ReadSftData(options_, tokenizer_);
  }

  // "prompt|response" of every sequence.
  std::vector<std::string> Texts(const std::string& name, const std::string& text) {
    auto data = Read(name, text);
    EXPECT_TRUE(data.ok()) << data.status().ToString();
    std::vector<std::string> texts;
    if (!data.ok()) return texts;
    for (const SftExample& example : (*std::move(data)).TakeExamples()) {
      texts.push_back(*tokenizer_.Decode(example.prompt, SpecialTokens::kKeep) + "|" +
                      *tokenizer_.Decode(example.response, SpecialTokens::kKeep));
    }
    return texts;
  }

  std::string ErrorOf(const std::string& text) {
    return Read("rows.jsonl", text).status().message();
  }

  TempDir folder_;
  SftDataOptions options_;
  ByteTokenizer tokenizer_{kTemplate};
};

TEST_F(SftDataTest, TextsAreJoinedAndClosed) {
  EXPECT_THAT(Texts("a.jsonl", R"({"prompt": "1+2=", "response": "3"})"), ElementsAre("1+2=|3$"));
  EXPECT_THAT(Texts("a.csv", "prompt,response\n1+2=,3\n4+4=,8\n"),
              ElementsAre("1+2=|3$", "4+4=|8$"));
  options_.prompt_field = "q.text";
  options_.response_field = "a";
  EXPECT_THAT(Texts("a.json", R"([{"q": {"text": "x"}, "a": "y"}])"), ElementsAre("x|y$"));
}

TEST_F(SftDataTest, MessagesComeFirstAndTheirToolsAreShown) {
  EXPECT_THAT(
      Texts("a.json",
            R"([{"prompt": "unused", "tools": ["f"], "messages": [{"role": "user", "content": "a"},
                {"role": "assistant", "content": "b"}]}])"),
      ElementsAre("[f]<user>a$<assistant>|b$"));
  options_.messages_field = "chat.turns";
  options_.tools_field = "";
  EXPECT_THAT(Texts("a.json",
                    R"([{"tools": ["f"], "chat": {"turns": [{"role": "user", "content": "a"},
                {"role": "assistant", "content": "b"}]}}])"),
              ElementsAre("<user>a$<assistant>|b$"));
}

TEST_F(SftDataTest, PromptsOfMessagesTakeResponsesOfTextAndOfMessages) {
  const std::string prompt =
      R"([{"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "old"},
          {"role": "user", "content": "b"}], "response": )";
  const std::string expected = "<user>a$<assistant>old$<user>b$<assistant>|new$";
  EXPECT_THAT(Texts("a.json", prompt + R"("new"}])"), ElementsAre(expected));
  EXPECT_THAT(Texts("a.json", prompt + R"([{"role": "assistant", "content": "new"}]}])"),
              ElementsAre(expected));
}

TEST_F(SftDataTest, ThePromptOfARunIsRenderedAsThereWithTheChatTemplate) {
  options_.chat_template = true;
  options_.system_prompt = "S";
  EXPECT_THAT(Texts("a.jsonl", R"({"prompt": "a", "response": "b"})"),
              ElementsAre("<system>S$<user>a$<assistant>|b$"));
}

TEST_F(SftDataTest, BadRowsAreListedWithTheirFaults) {
  EXPECT_THAT(ErrorOf("{\"prompt\": \"a\", \"response\": \"b\"}\n"
                      "{\"prompt\": \"a\", \"answer\": \"b\"}\n"
                      "{\"prompt\": 5, \"response\": \"b\"}\n"
                      "{\"prompt\": \"\", \"response\": \"b\"}\n"
                      "{\"messages\": [{\"role\": \"user\"}]}\n"
                      "{\"prompt\": [], \"response\": \"b\"}\n"),
              AllOf(HasSubstr("5 of 6 rows cannot be used"),
                    HasSubstr("line 2: no field 'response'; the row has prompt, answer; "
                              "--response-field names it"),
                    HasSubstr("line 3: 'prompt' is number; expected a text or a list"),
                    HasSubstr("line 4: 'prompt' has no tokens"),
                    HasSubstr("line 5: 'messages': message 0: no content"),
                    HasSubstr("line 6: 'prompt' and 'response': message 0: is of the")));
  options_.vocab_size = 'b';
  EXPECT_THAT(ErrorOf(R"({"prompt": "a", "response": "b"})"), HasSubstr("token 98 is outside"));
  options_.system_prompt = "S";
  EXPECT_THAT(ErrorOf(R"({"prompt": "a", "response": "b"})"), HasSubstr("needs --chat-template"));
}

TEST_F(SftDataTest, SequencesThatAreTooLongAreRefusedOrLeftOut) {
  const std::string rows =
      "{\"prompt\": \"a\", \"response\": \"b\"}\n{\"prompt\": \"aaaa\", \"response\": \"bb\"}\n";
  options_.max_tokens = 5;
  EXPECT_THAT(ErrorOf(rows), HasSubstr("line 2: 7 tokens, at most 5 are allowed"));
  options_.over_long = OverLong::kDrop;
  const auto data = Read("rows.jsonl", rows);
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  EXPECT_EQ(data->rows.size(), 1U);
  EXPECT_EQ(data->dropped, 1U);
  options_.max_tokens = 2;
  EXPECT_THAT(ErrorOf(rows), HasSubstr("every row has more than 2 tokens"));
}

TEST_F(SftDataTest, TheHeldOutShareIsTakenAwayByRow) {
  std::string rows;
  for (int i = 0; i < 40; ++i)
    rows += "{\"prompt\": \"" + std::to_string(i) + "\", \"response\": \"b\"}\n";
  auto data = Read("rows.jsonl", rows);
  ASSERT_TRUE(data.ok());
  const auto held_out = TakeHeldOut(*data, 0.1, 7);
  ASSERT_TRUE(held_out.ok());
  std::set<std::vector<std::int32_t>> prompts;
  for (const SftData* set : std::vector<const SftData*>{&*data, &*held_out}) {
    for (const auto& row : set->rows) prompts.insert(row[0].prompt);
  }
  EXPECT_EQ(held_out->rows.size(), 4U);
  EXPECT_EQ(data->rows.size(), 36U);
  EXPECT_EQ(prompts.size(), 40U);
  data->rows.resize(1);
  EXPECT_THAT(TakeHeldOut(*data, 0.1, 7).status().message(), HasSubstr("leaves none"));
}

TEST(ShuffledIndicesTest, EachPassHasEveryIndexOnceInAnotherOrder) {
  ShuffledIndices indices(20, 3);
  std::vector<std::size_t> first, second;
  for (int i = 0; i < 20; ++i) first.push_back(indices.Next());
  for (int i = 0; i < 20; ++i) second.push_back(indices.Next());
  EXPECT_EQ(std::set<std::size_t>(first.begin(), first.end()).size(), 20u);
  EXPECT_EQ(std::set<std::size_t>(second.begin(), second.end()).size(), 20u);
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace buttress
