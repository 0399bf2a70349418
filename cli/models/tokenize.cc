// `buttress tokenize` and `buttress detokenize`: what the tokenizer of a model makes of a file.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.h"
#include "lib/data/json_rows.h"
#include "lib/data/template_argument_option.h"
#include "lib/data/text_encoder.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

struct TokenizerFlags {
  std::string model;
  std::string file;
  bool json = false;
  bool no_special_tokens = false;
  bool no_generation_prompt = false;
  bool skip_special_tokens = false;
  std::map<std::string, std::string> arguments;  // of the chat template

  void AddTo(CLI::App& app, const std::string& rows, const std::string& columns) {
    app.add_option("--model", model, "folder with tokenizer.json")->required();
    app.add_option("file", file, "JSONL of " + rows)->required();
    app.add_flag("--json", json, "print one JSON object per row instead of " + columns);
  }
};

// What a row becomes.
struct Converted {
  std::string column;
  ordered_json field;
};

// Converts every row before it prints the first, so that a bad row leaves no partial output.
Status ConvertFile(const TokenizerFlags& flags, const char* field,
                   const std::function<Result<Converted>(const JsonRow&)>& convert) {
  std::string out;
  BUTTRESS_RETURN_IF_ERROR(ForEachJsonRow(flags.file, [&](const JsonRow& row) -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(const Converted converted, convert(row));
    if (flags.json) {
      out += ordered_json{{"id", row.id}, {field, converted.field}}.dump() + "\n";
    } else {
      out += IdText(row.id) + "\t" + converted.column + "\n";
    }
    return OkStatus();
  }));
  fmt::print("{}", out);
  return OkStatus();
}

Status Tokenize(const TokenizerFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(flags.model));
  BUTTRESS_ASSIGN_OR_RETURN(const TextEncoder encoder,
                            TextEncoder::Create(*tokenizer, flags.arguments));
  const RowEncoding encoding{.add_special_tokens = !flags.no_special_tokens,
                             .add_generation_prompt = !flags.no_generation_prompt};
  return ConvertFile(flags, "token_ids", [&](const JsonRow& row) -> Result<Converted> {
    BUTTRESS_ASSIGN_OR_RETURN(const auto ids, encoder.EncodeRow(row, encoding));
    return Converted{fmt::format("{}", fmt::join(ids, " ")), ids};
  });
}

Status Detokenize(const TokenizerFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(flags.model));
  const SpecialTokens special =
      flags.skip_special_tokens ? SpecialTokens::kSkip : SpecialTokens::kKeep;
  return ConvertFile(flags, "text", [&](const JsonRow& row) -> Result<Converted> {
    BUTTRESS_ASSIGN_OR_RETURN(const auto ids, TokenIdsOf(row, tokenizer->vocab_size()));
    BUTTRESS_ASSIGN_OR_RETURN(const std::string text, tokenizer->Decode(ids, special));
    return Converted{ordered_json(text).dump(), text};
  });
}

}  // namespace

std::function<Status()> AddTokenize(CLI::App& app) {
  const auto flags = std::make_shared<TokenizerFlags>();
  flags->AddTo(app, "{\"id\", \"text\"} or {\"id\", \"messages\", \"tools\"}",
               "the id, a tab and the token ids");
  app.add_flag("--no-special-tokens", flags->no_special_tokens,
               "text: leave out what tokenizer(text) of transformers adds, such as BOS");
  app.add_flag("--no-generation-prompt", flags->no_generation_prompt,
               "messages: end after the last message instead of beginning the answer");
  AddTemplateArgument(app, flags->arguments);
  return [flags] { return Tokenize(*flags); };
}

std::function<Status()> AddDetokenize(CLI::App& app) {
  const auto flags = std::make_shared<TokenizerFlags>();
  flags->AddTo(app, "{\"id\", \"token_ids\"}", "the id, a tab and the text as a JSON string");
  app.add_flag("--skip-special-tokens", flags->skip_special_tokens,
               "leave special tokens out of the text");
  return [flags] { return Detokenize(*flags); };
}

}  // namespace buttress
