#include "lib/samples/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fakes/byte_tokenizer.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Ids from 256 on are special tokens, which texts name between "{" and "}".
class MarkedTokenizer : public ByteTokenizer {
 public:
  std::vector<std::int32_t> Tokens(std::string_view text) {
    std::vector<std::int32_t> tokens;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] != '{') {
        tokens.push_back(text[at]);
        continue;
      }
      const std::size_t end = text.find('}', at);
      tokens.push_back(static_cast<std::int32_t>(256 + marks_.size()));
      marks_.emplace_back(text.substr(at + 1, end - at - 1));
      at = end;
    }
    return tokens;
  }

  Result<std::string> Decode(std::span<const std::int32_t> tokens, SpecialTokens) const override {
    std::string text;
    for (const std::int32_t token : tokens)
      text += token < 256 ? std::string(1, static_cast<char>(token)) : MarkOf(token);
    return text;
  }

  std::string TokenBytes(std::int32_t token) const override {
    return token < 256 ? std::string(1, static_cast<char>(token)) : "";
  }

 private:
  const std::string& MarkOf(std::int32_t token) const {
    return marks_[static_cast<std::size_t>(token - 256)];
  }

  std::vector<std::string> marks_;
};

// "role: content" of each message.
std::vector<std::string> Written(std::string_view text) {
  MarkedTokenizer tokenizer;
  const std::vector<std::int32_t> tokens = tokenizer.Tokens(text);
  std::vector<std::string> said;
  for (const SampleMessage& message : WrittenMessages(tokens, tokenizer))
    said.push_back(message.role + ": " + message.content);
  return said;
}

TEST(MessagesTest, TheMarksOfATemplateAreOfNoMessage) {
  EXPECT_THAT(Written("{<|im_start|>}system\nBe brief.{<|im_end|>}\n{<|im_start|>}user\n1\n2"
                      "{<|im_end|>}\n{<|im_start|>}assistant\n"),
              ElementsAre("system: Be brief.", "user: 1\n2"));
  EXPECT_THAT(Written("{<|begin_of_text|>}{<|start_header_id|>}user{<|end_header_id|>}\n\nuser"
                      "{<|eot_id|>}{<|start_header_id|>}assistant{<|end_header_id|>}\n\n"),
              ElementsAre("user: user"));
  EXPECT_THAT(Written("{[gMASK]}{<|user|>}\n1+1{<|observation|>}\n2{<|assistant|>}\n"),
              ElementsAre("user: 1+1", "tool: 2"));
  EXPECT_THAT(Written("{<s>}{[INST]} 1+1{[/INST]}"), ElementsAre("user: 1+1"));
}

TEST(MessagesTest, WhatFollowsAnAnswerBeginsWithItsRest) {
  EXPECT_THAT(Written("\n{<|im_start|>}user\nhigher{<|im_end|>}\n{<|im_start|>}assistant\n"),
              ElementsAre("user: higher"));
  EXPECT_THAT(Written("{<|im_end|>}\n"), IsEmpty());
}

TEST(MessagesTest, ResultsOfToolsWithinAMessageOfTheUserAreMessages) {
  EXPECT_THAT(Written("{<|im_start|>}user\n<tool_response>\n4\n</tool_response>\n<tool_response>\n"
                      "</tool_response>{<|im_end|>}\n{<|im_start|>}assistant\n"),
              ElementsAre("tool: 4", "tool: "));
  EXPECT_THAT(Written("{<|im_start|>}user\n<tool_response>\n4{<|im_end|>}\n"),
              ElementsAre("user: <tool_response>\n4"));
}

TEST(MessagesTest, TextUnderNoRoleIsOfTheEnvironment) {
  EXPECT_THAT(Written("higher"), ElementsAre("environment: higher"));
  EXPECT_THAT(Written("{<|startoftext|>}Guess!"), ElementsAre("environment: Guess!"));
  EXPECT_THAT(Written(" \n"), IsEmpty());
}

TEST(MessagesTest, AnAnswerShowsTheMarksThatThePolicyWroteWithinIt) {
  MarkedTokenizer tokenizer;
  EXPECT_EQ(SampledMessage(tokenizer.Tokens("4{<|im_end|>}"), tokenizer).content, "4");
  EXPECT_EQ(SampledMessage(tokenizer.Tokens("4{<|im_end|>}5"), tokenizer).content, "4<|im_end|>5");
  EXPECT_EQ(SampledMessage(std::span<const std::int32_t>(), tokenizer).content, "");
}

}  // namespace
}  // namespace buttress
