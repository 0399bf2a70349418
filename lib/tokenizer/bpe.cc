#include "lib/tokenizer/bpe.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "lib/tokenizer/byte_level.h"

namespace buttress {
namespace {

constexpr std::size_t kCachedWordBytesMax = 256;
constexpr std::size_t kCachedWordsMax = 65536;

std::uint64_t PairKey(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32U | static_cast<std::uint32_t>(right);
}

// A token of a partly merged word, linked to its neighbours. `token` is -1 after the symbol has
// merged into its left neighbour.
struct Symbol {
  std::int32_t token = -1;
  std::int64_t previous = -1;
  std::int64_t next = -1;
};

struct Candidate {
  std::int32_t rank = 0;
  std::int64_t left = 0;  // index of the left symbol
  std::int32_t token = 0;

  bool operator>(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

}  // namespace

Result<Bpe> Bpe::Create(Spec spec) {
  Bpe bpe;
  bpe.vocabulary_ = std::move(spec.vocabulary);
  bpe.ignore_merges_ = spec.ignore_merges;
  const auto find = [&](const std::string& token) {
    const auto it = bpe.vocabulary_.find(token);
    return it == bpe.vocabulary_.end() ? -1 : it->second;
  };
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    bpe.byte_tokens_[byte] = find(BytesToCharacters({&raw, 1}));
  }
  bpe.merges_.reserve(spec.merges.size());
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    const std::string path = "model.merges[" + std::to_string(rank) + "]";
    for (const std::string& token : {left, right, left + right}) {
      if (find(token) < 0)
        return InvalidArgument(fmt::format("{}: '{}' is not in model.vocab", path, token));
    }
    bpe.merges_.insert_or_assign(PairKey(find(left), find(right)),
                                 Merge{static_cast<std::int32_t>(rank), find(left + right)});
  }
  return bpe;
}

bool Bpe::covers_all_bytes() const {
  return std::none_of(byte_tokens_.begin(), byte_tokens_.end(),
                      [](std::int32_t token) { return token < 0; });
}

const Bpe::Merge* Bpe::FindMerge(std::int32_t left, std::int32_t right) const {
  const auto it = merges_.find(PairKey(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

std::vector<std::int32_t> Bpe::MergeAll(std::string_view word) const {
  std::vector<Symbol> symbols(word.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](std::int64_t left) {
    const Symbol& symbol = symbols[static_cast<std::size_t>(left)];
    if (symbol.next < 0) return;
    const Merge* merge =
        FindMerge(symbol.token, symbols[static_cast<std::size_t>(symbol.next)].token);
    if (merge != nullptr) queue.push({merge->rank, left, merge->token});
  };
  const auto size = static_cast<std::int64_t>(word.size());
  for (std::int64_t i = 0; i < size; ++i) {
    const auto byte = static_cast<std::uint8_t>(word[static_cast<std::size_t>(i)]);
    symbols[static_cast<std::size_t>(i)] = {byte_tokens_[byte], i - 1, i + 1 < size ? i + 1 : -1};
  }
  for (std::int64_t i = 0; i < size; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<std::size_t>(best.left)];
    if (left.token < 0 || left.next < 0) continue;
    Symbol& right = symbols[static_cast<std::size_t>(left.next)];
    // The candidate is stale if either side has merged since it was queued.
    const Merge* merge = FindMerge(left.token, right.token);
    if (merge == nullptr || merge->token != best.token) continue;
    left.token = best.token;
    left.next = right.next;
    right.token = -1;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = best.left;
    if (left.previous >= 0) offer(left.previous);
    offer(best.left);
  }
  std::vector<std::int32_t> tokens;
  for (const Symbol& symbol : symbols) {
    if (symbol.token >= 0) tokens.push_back(symbol.token);
  }
  return tokens;
}

std::optional<std::size_t> Bpe::EncodeWord(std::string_view word,
                                           std::vector<std::int32_t>& tokens) const {
  const bool cached = word.size() <= kCachedWordBytesMax;
  if (cached) {
    const MutexLock lock(cache_->mutex);
    const auto it = cache_->words.find(word);
    if (it != cache_->words.end()) {
      tokens.insert(tokens.end(), it->second.begin(), it->second.end());
      return std::nullopt;
    }
  }
  std::vector<std::int32_t> found;
  if (ignore_merges_) {
    const auto it = vocabulary_.find(BytesToCharacters(word));
    if (it != vocabulary_.end()) found.push_back(it->second);
  }
  if (found.empty()) {
    const auto unknown = std::find_if(word.begin(), word.end(), [&](char c) {
      return byte_tokens_[static_cast<std::uint8_t>(c)] < 0;
    });
    if (unknown != word.end()) return static_cast<std::size_t>(unknown - word.begin());
    found = MergeAll(word);
  }
  tokens.insert(tokens.end(), found.begin(), found.end());
  if (cached) {
    const MutexLock lock(cache_->mutex);
    if (cache_->words.size() >= kCachedWordsMax) cache_->words.clear();
    cache_->words.try_emplace(std::string(word), std::move(found));
  }
  return std::nullopt;
}

}  // namespace buttress
