#include "lib/samples/messages.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "lib/chat/scan.h"

namespace buttress {
namespace {

struct RoleMark {
  std::string_view mark, role;
};

// Special tokens that name the role of what follows.
constexpr RoleMark kRoleMarks[] = {
    {"<|system|>", "system"},
    {"<|user|>", "user"},
    {"<|assistant|>", "assistant"},
    {"<|observation|>", "tool"},
    {"[INST]", "user"},
    {"[/INST]", "assistant"},
    {"[TOOL_RESULTS]", "tool"},
    {"[SYSTEM_PROMPT]", "system"},
    {"[AVAILABLE_TOOLS]", "system"},
};

bool IsSpecial(std::int32_t token, const Tokenizer& tokenizer) {
  return tokenizer.TokenBytes(token).empty();
}

std::string TextOf(std::span<const std::int32_t> tokens, const Tokenizer& tokenizer) {
  Result<std::string> text = tokenizer.Decode(tokens, SpecialTokens::kKeep);
  return text.ok() ? *std::move(text) : "(" + text.status().message() + ")";
}

bool IsRole(std::string_view word) {
  return !word.empty() &&
         std::ranges::all_of(word, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

class MessageReader {
 public:
  // A special token. Those that begin a header, as <|im_start|> or <|start_header_id|>, have the
  // role behind them.
  void TakeMark(std::string_view mark) {
    header_ = mark.find("start") != std::string_view::npos;
    for (const RoleMark& known : kRoleMarks) {
      if (mark == known.mark) messages_.push_back({std::string(known.role), ""});
    }
  }

  void TakeText(std::string_view text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (std::exchange(header_, false) && IsRole(line)) {
      messages_.push_back({std::string(line), std::string(text.substr(line.size()))});
    } else if (!messages_.empty()) {
      messages_.back().content += text;
    } else if (!WithoutSpace(text).empty()) {
      messages_.push_back({"environment", std::string(text)});
    }
  }

  std::vector<SampleMessage> Take() {
    if (!messages_.empty() && WithoutSpace(messages_.back().content).empty()) messages_.pop_back();
    std::vector<SampleMessage> taken;
    for (const SampleMessage& message : messages_) Add(message, taken);
    return taken;
  }

 private:
  // Qwen's templates write results of tools into a message of the user.
  static void Add(const SampleMessage& message, std::vector<SampleMessage>& to) {
    constexpr std::string_view kBegin = "<tool_response>", kEnd = "</tool_response>";
    std::string_view content = WithoutSpace(message.content);
    while (content.starts_with(kBegin) && content.find(kEnd) != std::string_view::npos) {
      const std::size_t end = content.find(kEnd);
      const std::string_view result = content.substr(kBegin.size(), end - kBegin.size());
      to.push_back({"tool", std::string(WithoutSpace(result))});
      content = WithoutSpace(content.substr(end + kEnd.size()));
      if (content.empty()) return;
    }
    to.push_back({message.role, std::string(content)});
  }

  std::vector<SampleMessage> messages_;
  bool header_ = false;
};

}  // namespace

std::vector<SampleMessage> WrittenMessages(std::span<const std::int32_t> tokens,
                                           const Tokenizer& tokenizer) {
  MessageReader reader;
  for (std::size_t at = 0, end = 0; at < tokens.size(); at = end) {
    end = at + 1;
    if (IsSpecial(tokens[at], tokenizer)) {
      reader.TakeMark(TextOf(tokens.subspan(at, 1), tokenizer));
      continue;
    }
    while (end < tokens.size() && !IsSpecial(tokens[end], tokenizer)) ++end;
    reader.TakeText(TextOf(tokens.subspan(at, end - at), tokenizer));
  }
  return reader.Take();
}

SampleMessage SampledMessage(std::span<const std::int32_t> tokens, const Tokenizer& tokenizer) {
  if (!tokens.empty() && IsSpecial(tokens.back(), tokenizer))
    tokens = tokens.first(tokens.size() - 1);
  return {"assistant", TextOf(tokens, tokenizer)};
}

}  // namespace buttress
