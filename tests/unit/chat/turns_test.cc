#include "lib/chat/turns.h"

#include <gmock/gmock.h>

#include "tests/support/chat_tokenizer.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Tokens = std::vector<std::int32_t>;

ordered_json Said(const std::string& role, const std::string& content) {
  return ordered_json::array({{{"role", role}, {"content", content}}});
}

const ordered_json kTools = ordered_json::parse(R"([{"type": "function", "function":
    {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}])");

class TurnEncoderTest : public ::testing::Test {
 protected:
  void UseFamily(const std::string& family,
                 const std::map<std::string, std::string>& arguments = {}) {
    Use(TokenizerOfFamily(family), arguments);
  }

  void UseTemplate(const std::string& text) { Use(TokenizerWithTemplate(text), {}); }

  std::string Refusal(bool tools) const {
    const Result<TurnEncoder> turns = TurnEncoder::Create(*encoder_, tools);
    if (turns.ok()) return "";
    EXPECT_EQ(turns.status().code(), StatusCode::kInvalidArgument);
    return turns.status().message();
  }

  std::string Text(const Tokens& tokens) const {
    return *tokenizer_->Decode(tokens, SpecialTokens::kKeep);
  }

  std::string Next(const ordered_json& opening, const ordered_json& messages,
                   const std::string& ended = "", const ordered_json& tools = nullptr) const {
    const Result<TurnEncoder> turns = TurnEncoder::Create(*encoder_, !tools.is_null());
    if (!turns.ok()) return turns.status().ToString();
    const Result<Tokens> tokens =
        turns->Next(opening, messages, tools, tokenizer_->AddedTokenId(ended));
    return tokens.ok() ? Text(*tokens) : tokens.status().ToString();
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<TextEncoder> encoder_;

 private:
  void Use(std::unique_ptr<Tokenizer> tokenizer,
           const std::map<std::string, std::string>& arguments) {
    tokenizer_ = std::move(tokenizer);
    encoder_ = *TextEncoder::Create(*tokenizer_, arguments);
  }
};

TEST_F(TurnEncoderTest, ConversationsOfEachFamilyGrowAtTheirEnd) {
  for (const char* family :
       {"qwen2", "qwen2_5", "qwen3", "llama3", "mistral", "gemma", "qwen_xml", "glm_xml"}) {
    UseFamily(family);
    EXPECT_EQ(Refusal(false), "") << family;
  }
  for (const char* family : {"qwen2_5", "qwen3", "llama3", "mistral", "qwen_xml", "glm_xml"}) {
    UseFamily(family);
    EXPECT_EQ(Refusal(true), "") << family;
  }
  for (const char* family : {"qwen2", "gemma"}) {
    UseFamily(family);
    EXPECT_THAT(Refusal(true), HasSubstr("does not show tools")) << family;
  }
}

TEST_F(TurnEncoderTest, TheNextTurnEndsTheAnswerAndBeginsAnother) {
  UseFamily("qwen2_5");
  const ordered_json asked = Said("user", "2+2?");
  EXPECT_EQ(Next(asked, Said("user", "Sure?")),
            "<|im_end|>\n<|im_start|>user\nSure?<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(Next(asked, Said("user", "Sure?"), "<|im_end|>"),
            "\n<|im_start|>user\nSure?<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(Next(asked, Said("user", "Sure?"), "<|endoftext|>"),
            "<|im_end|>\n<|im_start|>user\nSure?<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(Next(asked, Said("tool", "4"), "<|im_end|>", kTools),
            "\n<|im_start|>user\n<tool_response>\n4\n</tool_response><|im_end|>\n"
            "<|im_start|>assistant\n");
  UseFamily("qwen_xml");
  EXPECT_EQ(Next(asked, Said("tool", "4"), "<|im_end|>", kTools),
            "\n<|im_start|>user\n<tool_response>\n4\n</tool_response><|im_end|>\n"
            "<|im_start|>assistant\n");
  UseFamily("glm_xml");  // whose answers end with the beginning of what follows
  EXPECT_EQ(Next(asked, Said("tool", "4"), "<|observation|>", kTools),
            "\n<tool_response>\n4\n</tool_response><|assistant|>");
  EXPECT_EQ(Next(asked, Said("user", "Sure?"), "<|user|>"), "\nSure?<|assistant|>");
  UseFamily("mistral");
  EXPECT_EQ(Next(asked, Said("user", "Sure?"), "</s>"), "[INST] Sure?[/INST]");
  UseFamily("llama3");
  EXPECT_EQ(Next(asked, Said("user", "Sure?"), "<|eot_id|>"),
            "<|start_header_id|>user<|end_header_id|>\n\nSure?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST_F(TurnEncoderTest, ThePiecesAreTheTokensOfTheConversation) {
  UseFamily("llama3");
  const TurnEncoder turns = *TurnEncoder::Create(*encoder_, false);
  ordered_json messages = ordered_json::parse(
      R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}])");
  const ordered_json opening = messages;
  Tokens pieces = *turns.First(messages, nullptr);
  for (const char* answer : {"4", "Yes, 4.", "é\n\n你"}) {
    Tokens sampled = *tokenizer_->Encode(std::string(answer) + "<|eot_id|>");
    pieces.insert(pieces.end(), sampled.begin(), sampled.end());
    const Tokens next = *turns.Next(opening, Said("user", "Sure?"), nullptr, sampled.back());
    pieces.insert(pieces.end(), next.begin(), next.end());
    messages.push_back({{"role", "assistant"}, {"content", answer}});
    messages.push_back({{"role", "user"}, {"content", "Sure?"}});
    EXPECT_EQ(pieces, *encoder_->EncodeMessages(messages, true));
  }
}

TEST_F(TurnEncoderTest, TemplatesMayLeaveOutThoughtsOfPastAnswers) {
  UseFamily("qwen3", {{"enable_thinking", "false"}});
  EXPECT_EQ(Refusal(false), "");
  EXPECT_EQ(Refusal(true), "");
  EXPECT_THAT(Next(Said("user", "a"), Said("user", "b"), "<|im_end|>"),
              "\n<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

TEST_F(TurnEncoderTest, TemplatesMayWriteCallsInPlaceOfContent) {
  UseTemplate(
      "{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}"
      "{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]"
      "{% elif m.tool_calls is defined %}[TOOL_CALLS] [{{ m.tool_calls[0].function | tojson }}]</s>"
      "{% elif m.role == 'assistant' %}{{ m.content }}</s>"
      "{% elif m.tool_call_id | length == 9 %}[TOOL_RESULTS]{{ m.content }}[/TOOL_RESULTS]"
      "{% else %}{{ raise_exception('no call') }}{% endif %}{% endfor %}");
  EXPECT_EQ(Refusal(true), "") << "as those of Mistral";
}

TEST_F(TurnEncoderTest, TemplatesMayEndAConversationThatIsOver) {
  UseTemplate(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% else %}</s>{% endif %}");
  EXPECT_EQ(Refusal(false), "") << "as that of Phi 3";
}

TEST_F(TurnEncoderTest, TemplatesThatRewriteWhatIsPastAreRefused) {
  const std::string turn = "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n";
  const std::string all = "{% for m in messages %}" + turn + "{% endfor %}";
  const std::string prompt =
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  UseTemplate(all + prompt);
  EXPECT_EQ(Refusal(false), "");
  UseTemplate("{{ messages | length }}" + all + prompt);
  EXPECT_THAT(Refusal(false), HasSubstr("once others follow"));
  UseTemplate("{% for m in messages %}" + turn +
              "{% if loop.index0 == 2 and not loop.last %}old{% endif %}{% endfor %}" + prompt);
  EXPECT_THAT(Refusal(false), AllOf(HasSubstr("from token"), HasSubstr("as 'old"),
                                    HasSubstr("its turns as '<|im_start|>assistant")));
  UseTemplate(
      "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}assistant: {% endif %}");
  EXPECT_THAT(Refusal(false), HasSubstr("ends an answer with '"));
  UseTemplate("{% for m in messages if m.role == 'user' %}" + turn + "{% endfor %}" + prompt);
  EXPECT_THAT(Refusal(false), HasSubstr("does not write what an assistant"));
}

TEST_F(TurnEncoderTest, AnOpeningThatTheTemplateMovesIsRefused) {
  UseFamily("mistral");
  const ordered_json asked = Said("user", "2+2?");
  EXPECT_THAT(Next(asked, Said("tool", "4"), "</s>", kTools), HasSubstr("[TOOL_RESULTS]"));
  EXPECT_THAT(Next(asked, Said("user", "Sure?"), "</s>", kTools), HasSubstr("INVALID_ARGUMENT"))
      << "the tools go with the last user message";
  ordered_json system = Said("system", "Be brief.");
  system.push_back(asked[0]);
  EXPECT_THAT(Next(system, Said("user", "Sure?")), HasSubstr("once others follow"));
}

}  // namespace
}  // namespace buttress
