#include "lib/data/text_encoder.h"

#include <gmock/gmock.h>

#include "tests/support/fakes/byte_tokenizer.h"

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
  EXPECT_THAT(Encoded(R"({"text": "a", "tools": []})").status().message(),
              HasSubstr("'tools' next to 'text'"));
  EXPECT_THAT(Encoded(R"({"messages": [{"role": "user", "content": "a"}], "tools": "f"})")
                  .status()
                  .message(),
              HasSubstr("'tools' is string; expected a list"));
}

TEST(TextEncoderTest, TheTemplateReadsTheToolsOfTheRow) {
  const std::string messages = R"("messages": [{"role": "user", "content": "a"}])";
  const std::string shows = "{{ tools is none }} {{ tools | tojson }}";
  EXPECT_EQ(*Encoded("{" + messages + R"(, "tools": [{"name": "f"}]})", {}, shows),
            R"(False [{"name": "f"}])");
  EXPECT_EQ(*Encoded("{" + messages + R"(, "tools": null})", {}, shows), "True null");
  EXPECT_EQ(*Encoded("{" + messages + "}", {}, shows), "True null");
}

TEST(TextEncoderTest, AMessageThatCallsToolsNeedsNoContent) {
  EXPECT_EQ(*Encoded(R"({"messages": [{"role": "assistant", "tool_calls": []}]})",
                     {.add_generation_prompt = false}),
            "<assistant>");
}

Result<std::string> EncodedWith(const std::map<std::string, std::string>& arguments,
                                const std::string& chat_template) {
  const ByteTokenizer tokenizer(chat_template);
  BUTTRESS_ASSIGN_OR_RETURN(const TextEncoder encoder, TextEncoder::Create(tokenizer, arguments));
  const auto messages = nlohmann::ordered_json::parse(R"([{"role": "user", "content": "hi"}])");
  BUTTRESS_ASSIGN_OR_RETURN(const auto tokens, encoder.EncodeMessages(messages, true));
  return tokenizer.Decode(tokens, SpecialTokens::kKeep);
}

TEST(TextEncoderTest, TheTemplateSeesSpecialTokensAndArguments) {
  EXPECT_EQ(*EncodedWith({}, "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}"),
            "^$False");
  EXPECT_EQ(*EncodedWith({{"enable_thinking", "false"}, {"date_string", "26 Jul 2024"}},
                         "{{ enable_thinking is false }} {{ date_string }}"),
            "True 26 Jul 2024");
  EXPECT_EQ(
      *EncodedWith({{"tools", R"([{"z": 1, "a": {"y": 2, "b": 3}}])"}}, "{{ tools[0] | tojson }}"),
      R"({"z": 1, "a": {"y": 2, "b": 3}})")
      << "members keep their order";
  EXPECT_EQ(*EncodedWith({{"bos_token", "B"}}, "{{ bos_token }}"), "B");
}

TEST(TextEncoderTest, ArgumentsThatWouldBeIgnoredAreRefused) {
  EXPECT_THAT(EncodedWith({{"messages", "[]"}}, "x").status().message(), HasSubstr("'messages'"));
  EXPECT_THAT(EncodedWith({{"tools", "[]"}}, "").status().message(), HasSubstr("no chat template"));
}

}  // namespace
}  // namespace buttress
