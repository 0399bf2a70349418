#include "cli/prepare/bpe_training.h"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>

#include "lib/base/check.h"
#include "lib/tokenizer/byte_level.h"

namespace buttress {
namespace {

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

}  // namespace

TrainedBpe TrainBpe(const std::map<std::string, std::int64_t>& words, std::size_t tokens) {
  BUTTRESS_CHECK(tokens >= kBytes, "a byte-level vocabulary has at least 256 tokens");
  return MergeTraining(words).Run(tokens);
}

}  // namespace buttress
