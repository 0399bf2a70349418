// Random tool calls are read back as they were written, and random conversations are their turns
// put together.
#include <gmock/gmock.h>

#include "lib/base/text/random.h"
#include "lib/chat/tool_calls.h"
#include "lib/chat/turns.h"
#include "tests/support/chat_tokenizer.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr int kTrials = 400;

std::string RandomText(RandomStream& random) {
  static constexpr const char* kPieces[] = {"a",  "Zoë", " ",  "\n",  "\"",  "'",  "\\", "{", "}",
                                            "[",  "]",   ";",  "(",   ")",   "=",  ",",  "7", "-",
                                            "你", "\t",  ": ", "</x", "\\n", "u0", "#"};
  std::string text;
  for (std::uint64_t i = random.Below(8); i > 0; --i)
    text += kPieces[random.Below(std::size(kPieces))];
  return text;
}

ordered_json RandomValue(RandomStream& random, int depth) {
  switch (random.Below(depth > 0 ? 7 : 5)) {
    case 0:
      return RandomText(random);
    case 1:
      return static_cast<std::int64_t>(random.Below(2000)) - 1000;
    case 2:
      return (random.Uniform() - 0.5) * 1e9;
    case 3:
      return random.Below(2) == 0;
    case 4:
      return nullptr;
    case 5: {
      ordered_json list = ordered_json::array();
      for (std::uint64_t i = random.Below(3); i > 0; --i)
        list.push_back(RandomValue(random, depth - 1));
      return list;
    }
    default: {
      ordered_json object = ordered_json::object();
      for (std::uint64_t i = random.Below(3); i > 0; --i)
        object[RandomText(random)] = RandomValue(random, depth - 1);
      return object;
    }
  }
}

std::vector<ToolCall> RandomCalls(RandomStream& random) {
  std::vector<ToolCall> calls(1 + random.Below(3));
  for (std::size_t c = 0; c < calls.size(); ++c) {
    ToolCall& call = calls[c] = {std::string(c + 1, 'f'), ordered_json::object()};
    for (std::uint64_t i = random.Below(3); i > 0; --i)
      call.arguments[std::string(i, 'x')] = RandomValue(random, 3);
  }
  return calls;
}

std::string PythonLiteral(const ordered_json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, item] : value.items())
    text += (value.is_object() ? ordered_json(key).dump() + ": " : "") + PythonLiteral(item) + ", ";
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

// As the templates of Qwen and GLM write it: texts as they are, other values as JSON.
std::string XmlCall(const ToolCall& call, ToolFormat format) {
  const bool glm = format == ToolFormat::kGlm;
  std::string text = glm ? call.name + "\n" : "\n<function=" + call.name + ">\n";
  for (const auto& [key, value] : call.arguments.items()) {
    const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
    text += glm ? "<arg_key>" + key + "</arg_key>\n<arg_value>" + shown + "</arg_value>\n"
                : "<parameter=" + key + ">\n" + shown + "\n</parameter>\n";
  }
  return glm ? text : text + "</function>\n";
}

// Tools whose arguments have the types of those of `calls`, whose names differ.
ordered_json ToolsOf(const std::vector<ToolCall>& calls) {
  ordered_json tools = ordered_json::array();
  for (const ToolCall& call : calls) {
    ordered_json properties = ordered_json::object();
    for (const auto& [key, value] : call.arguments.items())
      properties[key]["type"] = value.is_number_integer() ? "integer" : value.type_name();
    const ordered_json function = {{"name", call.name},
                                   {"parameters", {{"properties", properties}}}};
    tools.push_back({{"type", "function"}, {"function", function}});
  }
  return tools;
}

std::string Written(const std::vector<ToolCall>& calls, ToolFormat format) {
  std::string text;
  for (const ToolCall& call : calls) {
    const std::string name = ordered_json(call.name).dump();
    const std::string json =
        "{\"name\": " + name + ", \"arguments\": " + call.arguments.dump() + "}";
    std::string arguments;
    for (const auto& [key, value] : call.arguments.items())
      arguments += key + "=" + PythonLiteral(value) + ", ";
    if (format == ToolFormat::kHermes) text += "<tool_call>\n" + json + "\n</tool_call>\n";
    if (format == ToolFormat::kLlama) text += (text.empty() ? "" : "; ") + json;
    if (format == ToolFormat::kMistral)
      text += "[TOOL_CALLS]" + call.name + "[ARGS]" + call.arguments.dump();
    if (format == ToolFormat::kQwen || format == ToolFormat::kGlm)
      text += "<tool_call>" + XmlCall(call, format) + "</tool_call>\n";
    if (format == ToolFormat::kPythonic)
      text += (text.empty() ? "" : ", ") + call.name + "(" + arguments + ")";
  }
  return format == ToolFormat::kPythonic ? "[" + text + "]" : text;
}

TEST(ChatPropertyTest, CallsAreReadAsTheyWereWritten) {
  RandomStream random({.seed = 30, .stream = 1});
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<ToolCall> calls = RandomCalls(random);
    for (const ToolFormat format : {ToolFormat::kHermes, ToolFormat::kLlama, ToolFormat::kMistral,
                                    ToolFormat::kPythonic, ToolFormat::kQwen, ToolFormat::kGlm}) {
      const std::string text = Written(calls, format);
      const AssistantMessage message = ReadAnswer(text, format, ToolsOf(calls));
      ASSERT_TRUE(message.bad.empty()) << message.bad[0] << "\n" << text;
      ASSERT_EQ(message.calls.size(), calls.size()) << text;
      ASSERT_EQ(message.content, "") << text;
      for (std::size_t i = 0; i < calls.size(); ++i) {
        ASSERT_EQ(message.calls[i].name, calls[i].name) << text;
        ASSERT_EQ(message.calls[i].arguments.dump(), calls[i].arguments.dump()) << text;
      }
    }
  }
}

TEST(ChatPropertyTest, ConversationsAreTheirTurnsPutTogether) {
  RandomStream random({.seed = 30, .stream = 2});
  for (const auto& [family, end] : {std::pair{"qwen2_5", "<|im_end|>"},
                                    {"llama3", "<|eot_id|>"},
                                    {"gemma", "<end_of_turn>"},
                                    {"mistral", "</s>"}}) {
    const auto tokenizer = TokenizerOfFamily(family);
    const TextEncoder encoder = *TextEncoder::Create(*tokenizer);
    const Result<TurnEncoder> turns = TurnEncoder::Create(encoder, false);
    ASSERT_TRUE(turns.ok()) << turns.status().ToString();
    for (int trial = 0; trial < kTrials / 10; ++trial) {
      const auto user = [&] {
        return ordered_json::array({{{"role", "user"}, {"content", RandomText(random)}}});
      };
      const ordered_json opening = user();
      ordered_json messages = opening;
      std::vector<std::int32_t> pieces = *turns->First(opening, nullptr);
      for (int turn = 0; turn < 4; ++turn) {
        const std::string answer = "so" + RandomText(random) + "on";  // nothing to trim
        const std::string lead = std::string_view(family) == "mistral" ? " " : "";
        const auto sampled = *tokenizer->Encode(lead + answer + end);
        pieces.insert(pieces.end(), sampled.begin(), sampled.end());
        const ordered_json more = user();
        const auto next = *turns->Next(opening, more, nullptr, sampled.back());
        pieces.insert(pieces.end(), next.begin(), next.end());
        messages.push_back({{"role", "assistant"}, {"content", answer}});
        messages.push_back(more[0]);
        ASSERT_EQ(pieces, *encoder.EncodeMessages(messages, true)) << family << " " << messages;
      }
    }
  }
}

}  // namespace
}  // namespace buttress
