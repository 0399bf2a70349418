#include "learner/sft/sft_chat.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace buttress {
namespace {

using nlohmann::ordered_json;

template <class Range>
std::size_t CommonPrefix(const Range& a, const Range& b) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(end - a.begin());
}

// Whether a byte of UTF-8 is inside a character.
bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// A turn of the assistant within the tokens of the conversation up to its end.
struct AssistantTurn {
  std::vector<std::int32_t> tokens;
  std::size_t begin = 0, end = 0;  // of the trained tokens
  bool ended = false;              // the last trained token is an end token
};

// Collects turns into sequences.
class Sequences {
 public:
  void Add(AssistantTurn turn) {
    const bool continues = !tokens_.empty() && tokens_.size() <= turn.begin &&
                           CommonPrefix(tokens_, turn.tokens) == tokens_.size();
    if (!continues) Finish();
    tokens_ = std::move(turn.tokens);
    spans_.push_back({static_cast<std::int32_t>(turn.begin), static_cast<std::int32_t>(turn.end)});
  }

  std::vector<SftExample> Take() {
    Finish();
    return std::move(examples_);
  }

 private:
  void Finish() {
    if (spans_.empty()) return;
    const std::int32_t first = spans_.front().begin;
    SftExample& example = examples_.emplace_back();
    example.prompt.assign(tokens_.begin(), tokens_.begin() + first);
    example.response.assign(tokens_.begin() + first, tokens_.begin() + spans_.back().end);
    if (spans_.size() > 1) {
      for (const TokenSpan& span : spans_)
        example.trained.push_back({span.begin - first, span.end - first});
    }
    tokens_.clear();
    spans_.clear();
  }

  std::vector<SftExample> examples_;
  std::vector<std::int32_t> tokens_;  // of the open sequence
  std::vector<TokenSpan> spans_;      // its trained tokens
};

class TurnFinder {
 public:
  TurnFinder(const TextEncoder& encoder, const ordered_json& messages, const ordered_json& tools,
             std::span<const std::int32_t> ends)
      : encoder_(encoder), messages_(messages), tools_(tools), ends_(ends) {}

  Result<AssistantTurn> Find(std::size_t index) const {
    if (index == 0) return InvalidArgument("is of the assistant, but nothing comes before it");
    BUTTRESS_ASSIGN_OR_RETURN(const std::string asked, Render(index, true));
    BUTTRESS_ASSIGN_OR_RETURN(const std::string said, Render(index + 1, false));
    std::size_t common = CommonPrefix(asked, said);
    while (common > 0 && common < said.size() && IsContinuation(said[common])) --common;
    if (common < asked.size()) BUTTRESS_RETURN_IF_ERROR(CheckContext(index, said, common));
    BUTTRESS_ASSIGN_OR_RETURN(
        const std::vector<std::int32_t> context,
        encoder_.tokenizer().Encode(std::string_view(said).substr(0, common)));
    AssistantTurn turn;
    BUTTRESS_ASSIGN_OR_RETURN(turn.tokens, encoder_.tokenizer().Encode(said));
    turn.begin = CommonPrefix(context, turn.tokens);
    turn.end = turn.tokens.size();
    const auto is_end = [this](std::int32_t id) { return std::ranges::count(ends_, id) > 0; };
    for (std::size_t end = turn.end; end > turn.begin && !turn.ended; --end) {
      turn.ended = is_end(turn.tokens[end - 1]);
      if (turn.ended) turn.end = end;
    }
    if (turn.begin == turn.end) return InvalidArgument("the chat template writes nothing for it");
    if (turn.begin == 0) return InvalidArgument("the chat template writes nothing before it");
    return turn;
  }

 private:
  Result<std::string> Render(std::size_t count, bool add_generation_prompt) const {
    const ordered_json some(ordered_json::array_t(
        messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(count)));
    return encoder_.RenderMessages(some, add_generation_prompt, tools_);
  }

  // A template may write less than its beginning of an answer, such as no "<think>" in a past turn,
  // but not less than the messages before.
  Status CheckContext(std::size_t index, const std::string& said, std::size_t common) const {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string before, Render(index, false));
    if (common >= before.size() && said.starts_with(before)) return OkStatus();
    return InvalidArgument(
        "the chat template writes the messages before it in another way once it follows, so its "
        "tokens cannot be told from theirs; use rows of prompt and response");
  }

  const TextEncoder& encoder_;
  const ordered_json& messages_;
  const ordered_json& tools_;
  const std::span<const std::int32_t> ends_;
};

}  // namespace

std::int64_t SftExample::trained_tokens() const {
  if (trained.empty()) return std::ssize(response);
  std::int64_t count = 0;
  for (const TokenSpan& span : trained) count += span.end - span.begin;
  return count;
}

Result<SftChat> ExamplesOfChat(const TextEncoder& encoder, const ordered_json& messages,
                               const ordered_json& tools, std::size_t first,
                               std::span<const std::int32_t> ends) {
  BUTTRESS_RETURN_IF_ERROR(encoder.RenderMessages(messages, false, tools).status());
  const TurnFinder finder(encoder, messages, tools, ends);
  Sequences sequences;
  SftChat chat;
  for (std::size_t i = first; i < messages.size(); ++i) {
    if (messages[i].value("role", "") != "assistant") continue;
    auto turn = finder.Find(i);
    if (!turn.ok()) return turn.status().Annotate(fmt::format("message {}", i));
    ++chat.turns;
    chat.unended += turn->ended ? 0 : 1;
    sequences.Add(*std::move(turn));
  }
  if (chat.turns == 0) return InvalidArgument("has no message of the role assistant to learn from");
  chat.examples = sequences.Take();
  return chat;
}

}  // namespace buttress
