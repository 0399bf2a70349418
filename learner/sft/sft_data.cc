#include "learner/sft/sft_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lib/base/report/check.h"
#include "lib/data/field_path.h"
#include "lib/data/json_rows.h"
#include "lib/data/text_encoder.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

ordered_json Message(const char* role, const ordered_json& content) {
  return {{"role", role}, {"content", content}};
}

class RowParser {
 public:
  RowParser(const SftDataOptions& options, TextEncoder encoder)
      : options_(options), encoder_(std::move(encoder)) {}

  Result<SftChat> Parse(ordered_json& row) const {
    const FoundField messages =
        options_.messages_field.empty() ? FoundField() : FindField(row, options_.messages_field);
    BUTTRESS_ASSIGN_OR_RETURN(SftChat chat, messages && !messages.value().is_null()
                                                ? OfMessages(row, messages.value())
                                                : OfPair(row));
    for (const SftExample& example : chat.examples) BUTTRESS_RETURN_IF_ERROR(CheckIds(example));
    return chat;
  }

 private:
  Result<SftChat> OfMessages(ordered_json& row, const ordered_json& messages) const {
    auto chat = Chat(row, messages, 0);
    return chat.ok() ? std::move(chat) : chat.status().Annotate(Quoted(options_.messages_field));
  }

  Result<SftChat> OfPair(ordered_json& row) const {
    BUTTRESS_ASSIGN_OR_RETURN(const ordered_json* prompt,
                              Field(row, options_.prompt_field, "--prompt-field"));
    BUTTRESS_ASSIGN_OR_RETURN(const ordered_json* response,
                              Field(row, options_.response_field, "--response-field"));
    if (prompt->is_string() && response->is_string() && !options_.chat_template)
      return OfTexts(prompt->get_ref<const std::string&>(),
                     response->get_ref<const std::string&>());
    ordered_json messages = prompt->is_string() ? Asked(*prompt) : *prompt;
    const std::size_t first = messages.size();
    if (response->is_string()) {
      messages.push_back(Message("assistant", *response));
    } else {
      messages.insert(messages.end(), response->begin(), response->end());
    }
    auto chat = Chat(row, messages, first);
    if (chat.ok()) return chat;
    return chat.status().Annotate(Quoted(options_.prompt_field) + " and " +
                                  Quoted(options_.response_field));
  }

  ordered_json Asked(const ordered_json& prompt) const {
    ordered_json messages = ordered_json::array();
    if (!options_.system_prompt.empty())
      messages.push_back(Message("system", options_.system_prompt));
    messages.push_back(Message("user", prompt));
    return messages;
  }

  Result<SftChat> Chat(ordered_json& row, const ordered_json& messages, std::size_t first) const {
    const FoundField tools =
        options_.tools_field.empty() ? FoundField() : FindField(row, options_.tools_field);
    return ExamplesOfChat(encoder_, messages, tools ? tools.value() : ordered_json(), first,
                          options_.ends);
  }

  // The tokens of both texts, without what a chat template writes, and the end token.
  Result<SftChat> OfTexts(const std::string& prompt, const std::string& response) const {
    SftExample example;
    BUTTRESS_ASSIGN_OR_RETURN(example.prompt, encoder_.tokenizer().Encode(prompt));
    BUTTRESS_ASSIGN_OR_RETURN(example.response, encoder_.tokenizer().Encode(response));
    if (example.prompt.empty())
      return InvalidArgument(Quoted(options_.prompt_field) + " has no tokens");
    example.response.push_back(options_.ends.front());
    SftChat chat;
    chat.examples.push_back(std::move(example));
    return chat;
  }

  // A text, or a list of messages.
  static Result<const ordered_json*> Field(ordered_json& row, const std::string& path,
                                           const char* option) {
    const FoundField found = FindField(row, path);
    if (!found)
      return InvalidArgument(DescribeMissing(row, path) + fmt::format("; {} names it", option));
    const ordered_json& value = found.value();
    if (value.is_string() || value.is_array()) return &value;
    return InvalidArgument(fmt::format("'{}' is {}; expected a text or a list of messages", path,
                                       DescribeValue(value, path)));
  }

  Status CheckIds(const SftExample& example) const {
    for (const auto* ids : {&example.prompt, &example.response}) {
      for (const std::int32_t id : *ids) {
        if (id >= 0 && id < options_.vocab_size) continue;
        return InvalidArgument(
            fmt::format("token {} is outside the vocabulary of {} tokens; tokenizer.json and "
                        "config.json do not belong together",
                        id, options_.vocab_size));
      }
    }
    return OkStatus();
  }

  static std::string Quoted(const std::string& field) { return "'" + field + "'"; }

  const SftDataOptions& options_;
  const TextEncoder encoder_;
};

// Leaves out the sequences that are too long, or refuses the row.
Status KeepShort(const SftDataOptions& options, SftChat& chat, SftData& data) {
  for (const SftExample& example : chat.examples) {
    if (example.tokens() <= options.max_tokens || options.over_long == OverLong::kDrop) continue;
    return InvalidArgument(
        fmt::format("{} tokens, at most {} are allowed; --over-long drop leaves such rows out",
                    example.tokens(), options.max_tokens));
  }
  data.dropped += std::erase_if(chat.examples, [&options](const SftExample& example) {
    return example.tokens() > options.max_tokens;
  });
  return OkStatus();
}

}  // namespace

std::vector<SftExample> SftData::TakeExamples() && {
  std::vector<SftExample> examples;
  for (std::vector<SftExample>& row : rows) std::ranges::move(row, std::back_inserter(examples));
  rows.clear();
  return examples;
}

Result<SftData> ReadSftData(const SftDataOptions& options, const Tokenizer& tokenizer) {
  BUTTRESS_CHECK(!options.ends.empty(), "supervised training needs an end token");
  BUTTRESS_ASSIGN_OR_RETURN(TextEncoder encoder,
                            TextEncoder::Create(tokenizer, options.template_arguments));
  if (!options.chat_template && !options.system_prompt.empty())
    return InvalidArgument("--system-prompt needs --chat-template");
  const RowParser parser(options, std::move(encoder));
  SftData data;
  const auto add = [&](JsonRow row) -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(SftChat chat, parser.Parse(row.fields));
    BUTTRESS_RETURN_IF_ERROR(KeepShort(options, chat, data));
    data.turns += chat.turns;
    data.unended += chat.unended;
    if (!chat.examples.empty()) data.rows.push_back(std::move(chat.examples));
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachJsonRow(options.path, add));
  if (data.rows.empty()) {
    return InvalidArgument(fmt::format("{}: every row has more than {} tokens; raise --max-tokens",
                                       options.path, options.max_tokens));
  }
  return data;
}

Result<SftData> TakeHeldOut(SftData& data, double share, std::uint64_t seed) {
  const std::size_t rows = data.rows.size();
  const auto wanted = static_cast<std::size_t>(std::llround(share * static_cast<double>(rows)));
  const std::size_t count = std::max<std::size_t>(1, wanted);
  if (count >= rows) {
    return InvalidArgument(
        fmt::format("--held-out-share {} of {} rows leaves none to train on", share, rows));
  }
  ShuffledIndices order(rows, MixSeed(seed, HashText("held out")));
  SftData held_out;
  for (std::size_t i = 0; i < count; ++i)
    held_out.rows.push_back(std::move(data.rows[order.Next()]));
  std::erase_if(data.rows, [](const std::vector<SftExample>& row) { return row.empty(); });
  return held_out;
}

ShuffledIndices::ShuffledIndices(std::size_t count, std::uint64_t seed)
    : seed_(seed), order_(count) {
  BUTTRESS_CHECK(count > 0, "ShuffledIndices needs at least one index");
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  Shuffle();
}

std::size_t ShuffledIndices::Next() {
  if (next_ == order_.size()) {
    ++pass_;
    next_ = 0;
    Shuffle();
  }
  return order_[next_++];
}

void ShuffledIndices::Shuffle() {
  RandomStream random({seed_, pass_});
  buttress::Shuffle(std::span(order_), random);
}

}  // namespace buttress
