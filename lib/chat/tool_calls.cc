#include "lib/chat/tool_calls.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/text/bounded_json.h"
#include "lib/chat/python_calls.h"
#include "lib/chat/scan.h"
#include "lib/chat/xml_calls.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kNameBytes =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
constexpr std::string_view kMistralMark = "[TOOL_CALLS]";

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Whether JSON with these words is meant as a call rather than as an answer.
bool MentionsCall(std::string_view text) {
  return Contains(text, "\"name\"") &&
         (Contains(text, "\"arguments\"") || Contains(text, "\"parameters\""));
}

// Takes the JSON list or object that `text` begins with off its front, by its brackets; nullopt,
// and `text` unchanged, if it does not end.
std::optional<std::string_view> TakeJson(std::string_view& text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    in_string = c == '"';
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (depth > 0 || in_string) continue;
    const std::string_view json = text.substr(0, i + 1);
    text.remove_prefix(i + 1);
    return json;
  }
  return std::nullopt;
}

class AnswerReader {
 public:
  explicit AnswerReader(const ordered_json& tools) : tools_(tools) {}

  AssistantMessage Take() { return std::move(message_); }

  void Read(std::string_view text, ToolFormat format) {
    switch (format) {
      case ToolFormat::kAuto:
      case ToolFormat::kHermes:
      case ToolFormat::kGlm:
        return Tagged(text, format);
      case ToolFormat::kQwen:
        return Qwen(text);
      case ToolFormat::kLlama:
        return Llama(text);
      case ToolFormat::kMistral:
        return Mistral(text);
      case ToolFormat::kPythonic:
        return Pythonic(text);
    }
  }

 private:
  void Content(std::string_view text) { message_.content += text; }

  void Bad(std::string_view reason) {
    message_.bad.push_back(
        fmt::format("tool call {} {}", message_.calls.size() + message_.bad.size() + 1, reason));
  }

  void AddCall(const ordered_json& call) {
    if (!call.is_object()) return Bad("is no JSON object");
    const auto name = call.find("name");
    if (name == call.end() || !name->is_string() || name->get_ref<const std::string&>().empty())
      return Bad("has no \"name\"");
    auto arguments = call.find("arguments");
    if (arguments == call.end()) arguments = call.find("parameters");
    if (arguments == call.end() || !arguments->is_object())
      return Bad("has no object \"arguments\"");
    message_.calls.push_back({name->get<std::string>(), *arguments});
  }

  // Returns null, having said why, for a text that is not JSON.
  ordered_json Json(std::string_view text) {
    ordered_json value;
    if (text.size() <= kMaxJsonBytes && !NestedDeeper(text))
      value = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (value.is_discarded() || value.is_null()) {
      Bad("is not JSON");
      return nullptr;
    }
    return value;
  }

  void AddJson(std::string_view text) {
    if (const ordered_json value = Json(text); !value.is_null()) AddCall(value);
  }

  void AddBody(std::string_view body, ToolFormat format) {
    if (format == ToolFormat::kHermes) return AddJson(body);
    const Status read = format == ToolFormat::kGlm ? ReadGlmCall(body, tools_, message_.calls)
                                                   : ReadQwenCalls(body, tools_, message_.calls);
    if (!read.ok()) Bad(read.message());
  }

  // The mark of a call, which models leave out at times, begins its functions.
  void Qwen(std::string_view text) {
    const std::size_t function = text.find("<function=");
    if (Contains(text, "<tool_call>") || function == std::string_view::npos)
      return Tagged(text, ToolFormat::kQwen);
    Content(text.substr(0, function));
    text.remove_prefix(function);
    const std::size_t end = text.rfind("</tool_call>");
    AddBody(text.substr(0, end), ToolFormat::kQwen);
  }

  void Tagged(std::string_view text, ToolFormat format) {
    constexpr std::string_view kMark = "tool_call>";
    bool inside = false;
    while (!text.empty()) {
      const std::size_t mark = text.find(kMark);
      const bool found = mark != std::string_view::npos;
      const bool closes = found && text.substr(0, mark).ends_with("</");
      const bool opens = found && !closes && text.substr(0, mark).ends_with('<');
      const std::size_t next = found ? mark + kMark.size() : text.size();
      const std::size_t end = closes && inside ? mark - 2 : opens ? mark - 1 : next;
      if (inside) {
        body_ += text.substr(0, end);
      } else {
        Content(text.substr(0, end));
      }
      text.remove_prefix(next);
      if (!opens && !(closes && inside)) continue;
      if (inside) AddBody(std::exchange(body_, {}), format);
      inside = opens;
    }
    if (inside) AddBody(body_, format);
  }

  void Llama(std::string_view text) {
    std::string_view rest = WithoutSpace(text);
    const bool marked = TakePrefix(rest, "<|python_tag|>");
    if (!marked && !(rest.starts_with('{') && MentionsCall(rest))) return Content(text);
    while (true) {
      rest = WithoutSpace(rest);
      if (TakePrefix(rest, ";")) continue;
      if (!rest.starts_with('{')) break;
      const std::optional<std::string_view> json = TakeJson(rest);
      if (!json) return Bad("is not JSON");
      AddJson(*json);
    }
    if (marked && message_.calls.empty() && message_.bad.empty()) Bad("is not JSON");
    Content(rest);
  }

  void Mistral(std::string_view text) {
    const std::size_t mark = text.find(kMistralMark);
    if (mark == std::string_view::npos) {  // the mark is a special token
      std::string_view rest = WithoutSpace(text);
      const bool list = rest.starts_with('[') && MentionsCall(rest);
      const std::size_t name = rest.find_first_not_of(kNameBytes);
      if (list ||
          (name != 0 && name != std::string_view::npos && BeginsArguments(rest.substr(name))))
        return MistralCalls(rest);
      return Content(text);
    }
    Content(text.substr(0, mark));
    MistralCalls(text.substr(mark));
  }

  static bool BeginsArguments(std::string_view text) {
    if (text.starts_with("[ARGS]") || text.starts_with("[CALL_ID]")) return true;
    if (!TakePrefix(text, "{")) return false;
    text = WithoutSpace(text);
    return text.starts_with('"') || text.starts_with('}');
  }

  void MistralCalls(std::string_view rest) {
    while (true) {
      rest = WithoutSpace(rest);
      if (TakePrefix(rest, kMistralMark)) continue;
      if (rest.empty()) return;
      std::string name;
      if (!rest.starts_with('[')) {
        name = rest.substr(0, rest.find_first_not_of(kNameBytes));
        rest.remove_prefix(name.size());
        if (TakePrefix(rest, "[CALL_ID]"))
          rest.remove_prefix(std::min(rest.find_first_not_of(kNameBytes), rest.size()));
        TakePrefix(rest, "[ARGS]");
        rest = WithoutSpace(rest);
        if (name.empty() || !rest.starts_with('{'))
          return Bad("is neither a list nor a name with arguments");
      }
      const std::optional<std::string_view> text = TakeJson(rest);
      if (!text) return Bad("is not JSON");
      const ordered_json value = Json(*text);
      if (value.is_null()) continue;
      if (!name.empty()) {
        AddCall({{"name", name}, {"arguments", value}});
      } else {
        for (const ordered_json& call : value) AddCall(call);
      }
    }
  }

  void Pythonic(std::string_view text) {
    const std::string_view rest = WithoutSpace(text);
    if (!BeginsPythonCalls(rest)) return Content(text);
    const Result<std::size_t> end = ReadPythonCalls(rest, message_.calls);
    if (!end.ok()) return Bad("does not parse " + end.status().message());
    Content(rest.substr(*end));
  }

  const ordered_json& tools_;
  AssistantMessage message_;
  std::string body_;  // of an open <tool_call>
};

}  // namespace

ToolFormat FormatOf(std::string_view chat_template) {
  constexpr std::pair<std::string_view, ToolFormat> kMarks[] = {
      {"<function=", ToolFormat::kQwen},           {"<arg_key>", ToolFormat::kGlm},
      {"<tool_call>", ToolFormat::kHermes},        {kMistralMark, ToolFormat::kMistral},
      {"<|python_start|>", ToolFormat::kPythonic}, {"[func_name1(", ToolFormat::kPythonic},
      {"<|python_tag|>", ToolFormat::kLlama},      {"\"parameters\": ", ToolFormat::kLlama}};
  for (const auto& [mark, format] : kMarks) {
    if (Contains(chat_template, mark)) return format;
  }
  return ToolFormat::kHermes;
}

std::string_view BehindThoughts(std::string_view text) {
  constexpr std::string_view kEnd = "</think>";
  const std::size_t end = text.rfind(kEnd);
  const std::string_view said = text.substr(end == std::string_view::npos ? 0 : end + kEnd.size());
  return WithoutSpace(said).starts_with("<think>") ? text.substr(text.size()) : said;
}

std::string OpeningOfCall(ToolFormat format, const std::string& name) {
  const bool any = name.empty();
  switch (format) {
    case ToolFormat::kAuto:
    case ToolFormat::kHermes:
      return "<tool_call>\n" + (any ? "" : fmt::format(R"({{"name": "{}", "arguments":)", name));
    case ToolFormat::kLlama:
      return any ? R"({"name": ")" : fmt::format(R"({{"name": "{}", "parameters":)", name);
    case ToolFormat::kMistral:
      return std::string(kMistralMark) +
             (any ? "" : fmt::format(R"([{{"name": "{}", "arguments":)", name));
    case ToolFormat::kPythonic:
      return any ? "[" : "[" + name + "(";
    case ToolFormat::kQwen:
      return "<tool_call>\n<function=" + (any ? "" : name + ">\n");
    case ToolFormat::kGlm:
      return "<tool_call>" + (any ? "" : name + "\n");
  }
  return "";
}

AssistantMessage ReadAnswer(std::string_view text, ToolFormat format, const ordered_json& tools) {
  const std::string_view said = BehindThoughts(text);
  AnswerReader reader(tools);
  reader.Read(said, format);
  AssistantMessage message = reader.Take();
  if (message.calls.empty() && message.bad.empty()) {
    message.content = text;
  } else {
    message.content = std::string(text.substr(0, text.size() - said.size())) +
                      std::string(WithoutSpace(message.content));
  }
  return message;
}

}  // namespace buttress
