#include "learner/sft_data.h"

#include <c10/util/StringUtil.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/file.h"

namespace buttress {
namespace {

Result<std::vector<std::int32_t>> EncodeField(const nlohmann::json& row, const std::string& field,
                                              const Tokenizer& tokenizer) {
  const auto found = row.find(field);
  if (found == row.end())
    return InvalidArgument("no field '" + field +
                           "'; name it with --prompt-field or --response-field");
  if (!found->is_string()) return InvalidArgument("field '" + field + "' is not a string");
  return tokenizer.Encode(found->get<std::string>());
}

Result<SftExample> ParseExample(std::string_view line, const SftDataOptions& options,
                                const Tokenizer& tokenizer) {
  const auto row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object()) return InvalidArgument("not a JSON object");
  SftExample example;
  BUTTRESS_ASSIGN_OR_RETURN(example.prompt, EncodeField(row, options.prompt_field, tokenizer));
  BUTTRESS_ASSIGN_OR_RETURN(example.response, EncodeField(row, options.response_field, tokenizer));
  if (example.prompt.empty())
    return InvalidArgument("field '" + options.prompt_field + "' has no tokens");
  example.response.push_back(options.eos_token_id);
  const auto tokens = static_cast<std::int64_t>(example.prompt.size() + example.response.size());
  if (tokens > options.max_tokens) {
    return InvalidArgument(c10::str("example has ", tokens, " tokens, the model has ",
                                    options.max_tokens, " positions"));
  }
  for (const auto* ids : {&example.prompt, &example.response}) {
    for (const std::int32_t id : *ids) {
      if (id >= 0 && id < options.vocab_size) continue;
      return InvalidArgument(
          c10::str("token ", id, " is outside the vocabulary of ", options.vocab_size,
                   " tokens; tokenizer.json and config.json do not belong together"));
    }
  }
  return example;
}

}  // namespace

Result<std::vector<SftExample>> ReadSftExamples(const SftDataOptions& options,
                                                const Tokenizer& tokenizer) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.path));
  std::vector<SftExample> examples;
  std::string_view rest = text;
  for (std::size_t line_number = 1; !rest.empty(); ++line_number) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto example = ParseExample(line, options, tokenizer);
    if (!example.ok())
      return example.status().Annotate(options.path + ":" + std::to_string(line_number));
    examples.push_back(*std::move(example));
  }
  if (examples.empty()) return InvalidArgument(options.path + " holds no examples");
  return examples;
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
