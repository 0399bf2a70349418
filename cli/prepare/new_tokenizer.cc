#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cli/prepare/new_model.h"
#include "lib/base/report/check.h"
#include "lib/tokenizer/pre_tokenizer.h"
#include "lib/tokenizer/vocabulary.h"

namespace buttress {
namespace {

struct TrainedBpe {
  // Tokens by id in the byte-level alphabet: its 256 characters, then the merged tokens.
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string, std::string>> merges;  // in the order of learning
};

using Pair = std::pair<std::int32_t, std::int32_t>;

constexpr std::size_t kBytes = 256;

struct Word {
  std::vector<std::int32_t> tokens;
  std::int64_t count = 0;
};

struct Candidate {
  std::int64_t count = 0;
  Pair pair;

  // The queue returns the largest element first.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class MergeTraining {
 public:
  explicit MergeTraining(const std::map<std::string, std::int64_t>& words) {
    AddAlphabet();
    for (const auto& [bytes, count] : words) {
      Word word{{}, count};
      for (const char c : bytes) word.tokens.push_back(byte_ids_[static_cast<unsigned char>(c)]);
      words_.push_back(std::move(word));
      CountPairs(words_.size() - 1, +1);
    }
    for (const auto& [pair, use] : uses_) queue_.push({use.count, pair});
  }

  TrainedBpe Run(std::size_t tokens) {
    while (trained_.tokens.size() < tokens && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const auto use = uses_.find(best.pair);
      if (use == uses_.end() || use->second.count <= 0) continue;
      if (use->second.count != best.count) {  // the count has changed since the pair was queued
        queue_.push({use->second.count, best.pair});
        continue;
      }
      Merge(best.pair);
    }
    return std::move(trained_);
  }

 private:
  struct Use {
    std::int64_t count = 0;
    std::set<std::size_t> words;
  };

  // Adds the characters of the byte-level alphabet in Unicode order.
  void AddAlphabet() {
    std::vector<std::pair<char32_t, std::size_t>> characters;
    for (std::size_t b = 0; b < kBytes; ++b)
      characters.emplace_back(ByteToCharacter(static_cast<std::uint8_t>(b)), b);
    std::sort(characters.begin(), characters.end());
    byte_ids_.resize(kBytes);
    for (const auto& [character, byte] : characters)
      byte_ids_[byte] = IdOf(BytesToCharacters(std::string(1, static_cast<char>(byte))));
  }

  std::int32_t IdOf(const std::string& token) {
    const auto [it, fresh] = ids_.emplace(token, static_cast<std::int32_t>(trained_.tokens.size()));
    if (fresh) trained_.tokens.push_back(token);
    return it->second;
  }

  void CountPairs(std::size_t index, std::int64_t sign) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.tokens.size(); ++i) {
      Use& use = uses_[{word.tokens[i], word.tokens[i + 1]}];
      use.count += sign * word.count;
      if (sign > 0) use.words.insert(index);
    }
  }

  void Merge(const Pair& pair) {
    const std::string left = trained_.tokens[static_cast<std::size_t>(pair.first)];
    const std::string right = trained_.tokens[static_cast<std::size_t>(pair.second)];
    trained_.merges.emplace_back(left, right);
    const std::int32_t whole = IdOf(left + right);
    const std::set<std::size_t> words = std::move(uses_[pair].words);
    std::set<Pair> grown;
    for (const std::size_t index : words) {
      CountPairs(index, -1);
      std::vector<std::int32_t>& tokens = words_[index].tokens;
      std::vector<std::int32_t> merged;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const bool both =
            i + 1 < tokens.size() && tokens[i] == pair.first && tokens[i + 1] == pair.second;
        merged.push_back(both ? whole : tokens[i]);
        i += both ? 1 : 0;
      }
      tokens = std::move(merged);
      CountPairs(index, +1);
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        if (tokens[i] == whole || tokens[i + 1] == whole) grown.insert({tokens[i], tokens[i + 1]});
      }
    }
    uses_.erase(pair);
    for (const Pair& fresh : grown) queue_.push({uses_[fresh].count, fresh});
  }

  TrainedBpe trained_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<std::int32_t> byte_ids_;
  std::vector<Word> words_;
  std::map<Pair, Use> uses_;
  std::priority_queue<Candidate> queue_;
};

// Learns the merges of a byte-level BPE (Sennrich et al. 2016, arXiv 1508.07909) from `words` (raw
// bytes) with their counts. Each round merges the most frequent pair, and among equally frequent
// pairs the one with the smaller ids, until there are `tokens` tokens or no pairs. The result is
// that of Hugging Face's BpeTrainer. REQUIRES: tokens >= 256.
TrainedBpe TrainBpe(const std::map<std::string, std::int64_t>& words, std::size_t tokens) {
  BUTTRESS_CHECK(tokens >= kBytes, "a byte-level vocabulary has at least 256 tokens");
  return MergeTraining(words).Run(tokens);
}

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kStartToken = "<|im_start|>";
constexpr std::int64_t kChatTokens = 3;  // special ones
constexpr std::int64_t kMinTokens = 256 + kChatTokens;

// The pre-tokenizer pattern of Qwen2's tokenizer.json.
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr const char* kChatMl =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] "
    "}}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
// The characters that the template writes around the messages.
constexpr const char* kChatMlCharacters = "systemuserassistant\n";

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

NewTokenizer MakeChat(const TrainedBpe& bpe, const ordered_json& pre_tokenizer) {
  NewTokenizer made = Make(bpe, {kPadToken, kStartToken, kEndToken}, pre_tokenizer);
  made.chat_template = kChatMl;
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

NewTokenizer CharacterTokenizer(const std::string& characters, bool chat) {
  TrainedBpe bpe;
  std::set<char> seen;
  for (const char c : chat ? characters + kChatMlCharacters : characters) {
    if (seen.insert(c).second) bpe.tokens.push_back(BytesToCharacters(std::string(1, c)));
  }
  return chat ? MakeChat(bpe, ByteLevel()) : Make(bpe, {kPadToken, kEndToken}, ByteLevel());
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
  const auto learned = static_cast<std::size_t>(tokens - kChatTokens);
  return MakeChat(TrainBpe(words, learned), Qwen2PreTokenizer());
}

}  // namespace buttress
