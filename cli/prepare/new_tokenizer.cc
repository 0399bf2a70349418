#include "cli/prepare/new_tokenizer.h"

#include <fmt/core.h>

#include <fstream>
#include <map>
#include <set>

#include "cli/prepare/bpe_training.h"
#include "lib/tokenizer/byte_level.h"
#include "lib/tokenizer/pre_tokenizer.h"

namespace buttress {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kStartToken = "<|im_start|>";
constexpr std::int64_t kMinTokens = 256 + 3;  // bytes and special tokens

// The pre-tokenizer pattern of Qwen2's tokenizer.json.
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr const char* kChatMl =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] "
    "}}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

ordered_json ByteLevel() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

ordered_json Qwen2PreTokenizer() {
  const ordered_json split{{"type", "Split"},
                           {"pattern", {{"Regex", kQwen2Pattern}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({split, ByteLevel()})}};
}

// Assembles tokenizer.json. The special tokens follow the learned ones.
NewTokenizer Make(const TrainedBpe& bpe, const std::vector<std::string>& special,
                  const ordered_json& pre_tokenizer) {
  ordered_json vocab = ordered_json::object();
  // Appending avoids the linear search of operator[]; the tokens are distinct.
  auto& entries = vocab.get_ref<ordered_json::object_t&>();
  for (const std::string& token : bpe.tokens) entries.push_back({token, entries.size()});
  ordered_json merges = ordered_json::array();
  for (const auto& [left, right] : bpe.merges) merges.push_back({left, right});
  NewTokenizer made;
  made.tokens = static_cast<std::int64_t>(bpe.tokens.size());
  ordered_json added = ordered_json::array();
  for (const std::string& content : special) {
    if (content == kPadToken) made.pad_id = made.tokens;
    if (content == kEndToken) made.end_id = made.tokens;
    added.push_back({{"id", made.tokens++},
                     {"content", content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  made.json = {{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", added},
               {"normalizer", nullptr},
               {"pre_tokenizer", pre_tokenizer},
               {"post_processor", nullptr},
               {"decoder", ByteLevel()},
               {"model",
                {{"type", "BPE"},
                 {"dropout", nullptr},
                 {"unk_token", nullptr},
                 {"continuing_subword_prefix", ""},
                 {"end_of_word_suffix", ""},
                 {"fuse_unk", false},
                 {"byte_fallback", false},
                 {"vocab", vocab},
                 {"merges", merges}}}};
  return made;
}

// Counts the words of every string in `value`.
Status CountWords(const json& value, const PreTokenizer& pre_tokenizer,
                  std::map<std::string, std::int64_t>& words) {
  if (value.is_structured()) {
    for (const json& part : value) BUTTRESS_RETURN_IF_ERROR(CountWords(part, pre_tokenizer, words));
  }
  if (!value.is_string()) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(const PreTokenizedText text,
                            pre_tokenizer.Split(value.get<std::string>(), /*first=*/true));
  for (const TextRange& range : text.words)
    ++words[TokenToBytes(text.text.substr(range.begin, range.end - range.begin))];
  return OkStatus();
}

}  // namespace

NewTokenizer CharacterTokenizer(const std::string& characters) {
  TrainedBpe bpe;
  std::set<char> seen;
  for (const char c : characters) {
    if (seen.insert(c).second) bpe.tokens.push_back(BytesToCharacters(std::string(1, c)));
  }
  return Make(bpe, {kPadToken, kEndToken}, ByteLevel());
}

Result<NewTokenizer> TrainTokenizer(const std::string& path, std::int64_t tokens) {
  if (tokens < kMinTokens) {
    return InvalidArgument(fmt::format(
        "--tokens = {}; expected at least {} (bytes and special tokens)", tokens, kMinTokens));
  }
  std::ifstream lines(path);
  if (!lines) return NotFound("cannot open " + path + "; --text expects a JSONL file");
  BUTTRESS_ASSIGN_OR_RETURN(const PreTokenizer pre_tokenizer,
                            PreTokenizer::FromJson(json(Qwen2PreTokenizer())));
  std::map<std::string, std::int64_t> words;
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    const json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
    const Status counted =
        row.is_discarded() ? InvalidArgument("not JSON") : CountWords(row, pre_tokenizer, words);
    if (!counted.ok())
      return InvalidArgument(fmt::format("{}, line {}: {}", path, number, counted.message()));
  }
  const std::vector<std::string> special = {kPadToken, kStartToken, kEndToken};
  const auto learned = static_cast<std::size_t>(tokens) - special.size();
  NewTokenizer made = Make(TrainBpe(words, learned), special, Qwen2PreTokenizer());
  made.chat_template = kChatMl;
  return made;
}

}  // namespace buttress
