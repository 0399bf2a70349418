#include "lib/data/text_encoder.h"

#include <gmock/gmock.h>

#include "tests/support/byte_tokenizer.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr char kChatTemplate[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

Result<std::string> Encoded(const std::string& row_text, const RowEncoding& encoding = {},
                            const std::string& chat_template = kChatTemplate) {
  const ByteTokenizer tokenizer(chat_template);
  BUTTRESS_ASSIGN_OR_RETURN(const TextEncoder encoder, TextEncoder::Create(tokenizer));
  JsonRow row;
  row.fields = nlohmann::ordered_json::parse(row_text);
  BUTTRESS_ASSIGN_OR_RETURN(const auto tokens, encoder.EncodeRow(row, encoding));
  return tokenizer.Decode(tokens, SpecialTokens::kKeep);
}

TEST(TextEncoderTest, MessagesAreRenderedAndTextIsNot) {
  const std::string messages = R"({"messages": [{"role": "user", "content": "hi"}]})";
  EXPECT_EQ(*Encoded(messages), "<user>hi<assistant>");
  EXPECT_EQ(*Encoded(messages, {.add_generation_prompt = false}), "<user>hi");
  EXPECT_EQ(*Encoded(R"({"text": "hi"})"), "hi");
}

TEST(TextEncoderTest, BadRowsAreErrorsThatNameTheField) {
  EXPECT_THAT(Encoded(R"({"id": 1})").status().message(), HasSubstr("'text' and 'messages'"));
  EXPECT_THAT(Encoded(R"({"text": "a", "messages": []})").status().message(), HasSubstr("one of"));
  EXPECT_THAT(Encoded(R"({"text": 5})").status().message(), HasSubstr("'text' is number"));
  EXPECT_THAT(Encoded(R"({"messages": "a"})").status().message(), HasSubstr("'messages'"));
  EXPECT_THAT(Encoded(R"({"messages": [{"role": "user"}]})").status().message(),
              HasSubstr("message 0: no content"));
  EXPECT_THAT(Encoded(R"({"messages": [{"role": "user", "content": [1]}]})").status().message(),
              HasSubstr("content is array"));
  EXPECT_THAT(
      Encoded(R"({"messages": [{"role": "user", "content": "a"}]})", {}, "").status().message(),
      HasSubstr("no chat template"));
}

TEST(TextEncoderTest, AMessageThatCallsToolsNeedsNoContent) {
  EXPECT_EQ(*Encoded(R"({"messages": [{"role": "assistant", "tool_calls": []}]})",
                     {.add_generation_prompt = false}),
            "<assistant>");
}

}  // namespace
}  // namespace buttress
