#include "lib/chat/turns.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <string_view>

namespace buttress {
namespace {

using nlohmann::ordered_json;

// The content of an answer that is rendered, and not encoded.
constexpr std::string_view kAnswer = "buttress-answer";
// Those of answers that are encoded. Samples have the letters of user and assistant, because a
// tokenizer of single characters may have no others.
constexpr std::string_view kSampleAnswers[] = {"sususta", "rerenta", "ninisea"};
constexpr std::size_t kShownTokens = 8;

ordered_json UserMessage(std::string_view content) {
  return {{"role", "user"}, {"content", content}};
}

ordered_json ToolMessage(std::string_view content) {
  return {{"role", "tool"}, {"name", "f"}, {"tool_call_id", "call00001"}, {"content", content}};
}

ordered_json SampleOpening() { return ordered_json::array({UserMessage("nature")}); }

ordered_json SampleTools() {
  return ordered_json::parse(
      R"([{"type": "function", "function": {"name": "f", "description": "Finds x.",
           "parameters": {"type": "object", "properties": {"x": {"type": "string"}},
                          "required": ["x"]}}}])");
}

ordered_json AnswerMessage(const std::string& content, bool calls) {
  ordered_json message = {{"role", "assistant"}, {"content", content}};
  if (calls) {
    const ordered_json function = {{"name", "f"}, {"arguments", {{"x", content}}}};
    message["tool_calls"] =
        ordered_json::array({{{"id", "call00001"}, {"type", "function"}, {"function", function}}});
  }
  return message;
}

void Append(ordered_json& messages, const ordered_json& more) {
  messages.insert(messages.end(), more.begin(), more.end());
}

Status NoAnswer() {
  return InvalidArgument(
      "the chat template does not write what an assistant message says; give the model one that "
      "does in chat_template.jinja");
}

// Returns the text of the token that ends an answer, the first of `tokens`.
Result<std::string> EndOfAnswer(const Tokenizer& tokenizer, std::span<const std::int32_t> tokens) {
  const auto first = tokens.first(std::min<std::size_t>(tokens.size(), 1));
  BUTTRESS_ASSIGN_OR_RETURN(std::string text, tokenizer.Decode(first, SpecialTokens::kKeep));
  if (!first.empty() && tokenizer.AddedTokenId(text) == tokens[0]) return text;
  return InvalidArgument(fmt::format(
      "the chat template ends an answer with '{}', which is no added token of the tokenizer, so "
      "that its tokens depend on the answer; give the model a template that ends answers with an "
      "added token, such as <|im_end|>, in chat_template.jinja",
      text));
}

// Returns the text of a few tokens from `at` on.
std::string Shown(const Tokenizer& tokenizer, std::span<const std::int32_t> tokens,
                  std::size_t at) {
  const auto some = tokens.subspan(at, std::min(kShownTokens, tokens.size() - at));
  const Result<std::string> text = tokenizer.Decode(some, SpecialTokens::kKeep);
  return text.ok() ? *text : text.status().message();
}

}  // namespace

Result<TurnEncoder> TurnEncoder::Create(const TextEncoder& encoder, bool tools) {
  const TurnEncoder turns(encoder);
  if (!tools) {
    const std::vector<ordered_json> users = {ordered_json::array({UserMessage("trees")}),
                                             ordered_json::array({UserMessage("\nrain\n\nsun\n")}),
                                             ordered_json::array({UserMessage("sea")})};
    BUTTRESS_RETURN_IF_ERROR(turns.Prove(users, nullptr));
    return turns;
  }
  const ordered_json opening = SampleOpening();
  BUTTRESS_ASSIGN_OR_RETURN(const std::string shown,
                            encoder.RenderMessages(opening, true, SampleTools()));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string bare, encoder.RenderMessages(opening, true));
  if (shown == bare)
    return InvalidArgument(
        "the chat template does not show tools to the policy; give the model one with tools in "
        "chat_template.jinja");
  const std::vector<ordered_json> results = {
      ordered_json::array({ToolMessage("7")}),
      ordered_json::array({ToolMessage("[1, 2]"), ToolMessage(" none\n")}),
      ordered_json::array({ToolMessage("{\"x\": 7}")})};
  BUTTRESS_RETURN_IF_ERROR(turns.Prove(results, SampleTools()));
  return turns;
}

Result<std::vector<std::int32_t>> TurnEncoder::First(const ordered_json& opening,
                                                     const ordered_json& tools) const {
  return encoder_->EncodeMessages(opening, true, tools);
}

Result<std::vector<std::int32_t>> TurnEncoder::Next(const ordered_json& opening,
                                                    const ordered_json& messages,
                                                    const ordered_json& tools,
                                                    std::int32_t ended) const {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, NextText(opening, messages, tools));
  BUTTRESS_ASSIGN_OR_RETURN(auto tokens, encoder_->tokenizer().Encode(text));
  BUTTRESS_RETURN_IF_ERROR(EndOfAnswer(encoder_->tokenizer(), tokens).status());
  if (tokens.front() == ended) tokens.erase(tokens.begin());
  return tokens;
}

Result<std::string> TurnEncoder::NextText(const ordered_json& opening, const ordered_json& messages,
                                          const ordered_json& tools) const {
  ordered_json conversation = opening;
  conversation.push_back(AnswerMessage(std::string(kAnswer), false));
  Append(conversation, messages);
  BUTTRESS_ASSIGN_OR_RETURN(std::string text, encoder_->RenderMessages(conversation, true, tools));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string asked,
                            encoder_->RenderMessages(opening, true, tools));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string alone,
                            encoder_->RenderMessages(opening, false, tools));
  // Without what the template puts at the end of a conversation to which no answer follows.
  const auto past =
      static_cast<std::size_t>(std::ranges::mismatch(alone, asked).in1 - alone.begin());
  const std::size_t at = text.find(kAnswer, std::min(past, text.size()));
  const std::string_view before = std::string_view(text).substr(0, at);
  if (!before.starts_with(std::string_view(alone).substr(0, past)) ||
      !(before.starts_with(asked) || asked.starts_with(before)))
    return InvalidArgument(
        "the chat template writes the messages that begin a conversation in another way once "
        "others follow, so that it cannot go on; give the model one that only adds to them in "
        "chat_template.jinja");
  if (at == std::string::npos) return NoAnswer();
  return text.substr(at + kAnswer.size());
}

Status TurnEncoder::Prove(const std::vector<ordered_json>& turns, const ordered_json& tools) const {
  const Tokenizer& tokenizer = encoder_->tokenizer();
  const ordered_json opening = SampleOpening();
  BUTTRESS_ASSIGN_OR_RETURN(const std::string asked,
                            encoder_->RenderMessages(opening, true, tools));
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<std::int32_t> pieces, First(opening, tools));
  ordered_json conversation = opening;
  std::string beginning;  // of an answer, where the template leaves it out of past ones
  for (std::size_t i = 0; i < std::min(turns.size(), std::size(kSampleAnswers)); ++i) {
    conversation.push_back(AnswerMessage(std::string(kSampleAnswers[i]), !tools.is_null()));
    Append(conversation, turns[i]);
    BUTTRESS_ASSIGN_OR_RETURN(std::string text,
                              encoder_->RenderMessages(conversation, true, tools));
    if (const std::size_t at = text.find(kSampleAnswers[0]);
        i == 0 && at < asked.size() && asked.starts_with(std::string_view(text).substr(0, at)))
      beginning = asked.substr(at);
    std::size_t answer = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      answer = text.find(kSampleAnswers[j], answer);
      if (answer == std::string::npos) return NoAnswer();
      text.insert(answer, beginning);
      answer = text.rfind(kSampleAnswers[j]);
    }
    BUTTRESS_ASSIGN_OR_RETURN(const auto next, Next(opening, turns[i], tools, -1));
    BUTTRESS_ASSIGN_OR_RETURN(const std::string end, EndOfAnswer(tokenizer, next));
    BUTTRESS_ASSIGN_OR_RETURN(const auto answered,
                              tokenizer.Encode(text.substr(0, text.find(end, answer))));
    if (answered.size() > pieces.size())
      pieces.insert(pieces.end(), answered.begin() + std::ssize(pieces), answered.end());
    pieces.insert(pieces.end(), next.begin(), next.end());
    BUTTRESS_ASSIGN_OR_RETURN(const auto tokens, tokenizer.Encode(text));
    if (tokens == pieces) continue;
    const auto differs = std::ranges::mismatch(tokens, pieces).in1 - tokens.begin();
    const auto at = static_cast<std::size_t>(differs);
    return InvalidArgument(fmt::format(
        "the chat template writes a conversation in another way than turn by turn: from token {} "
        "on as '{}', its turns as '{}'; give the model one that only adds to what is past in "
        "chat_template.jinja",
        at, Shown(tokenizer, tokens, at), Shown(tokenizer, pieces, at)));
  }
  return OkStatus();
}

}  // namespace buttress
