#include "lib/tokenizer/bpe.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "lib/base/text/unicode.h"

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
  for (char32_t c = 0; c < kByteCharacters; ++c) {
    std::string character;
    AppendUtf8(c, character);
    bpe.character_tokens_[c] = find(character);
  }
  for (unsigned byte = 0; byte < 256; ++byte)
    bpe.fallback_tokens_[byte] = spec.byte_fallback ? find(fmt::format("<0x{:02X}>", byte)) : -1;
  bpe.fuse_unk_ = spec.fuse_unk;
  if (!spec.unk_token.empty()) {
    bpe.unk_token_ = find(spec.unk_token);
    if (bpe.unk_token_ < 0)
      return InvalidArgument("model.unk_token = '" + spec.unk_token + "' is not in model.vocab");
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

std::int32_t Bpe::TokenOf(std::string_view character) const {
  const char32_t code_point = CodePointAt(character, 0).value;
  if (code_point < kByteCharacters) return character_tokens_[code_point];
  const auto it = vocabulary_.find(character);
  return it == vocabulary_.end() ? -1 : it->second;
}

// Appends the tokens of the characters before any merge, in the order of Hugging Face, where bytes
// overtake an unk_token that is still open. Returns the offset of a character without a token.
std::optional<std::size_t> Bpe::Characters(std::string_view word,
                                           std::vector<std::int32_t>& tokens) const {
  bool open_unk = false;
  for (std::size_t at = 0, length = 0; at < word.size(); at += length) {
    length = CodePointAt(word, at).length;
    const std::string_view character = word.substr(at, length);
    const auto fallback = [&](char c) { return fallback_tokens_[static_cast<std::uint8_t>(c)]; };
    if (const std::int32_t token = TokenOf(character); token >= 0) {
      if (std::exchange(open_unk, false)) tokens.push_back(unk_token_);
      tokens.push_back(token);
    } else if (std::all_of(character.begin(), character.end(),
                           [&](char c) { return fallback(c) >= 0; })) {
      for (const char c : character) tokens.push_back(fallback(c));
    } else if (unk_token_ < 0) {
      return at;
    } else {
      if (open_unk && !fuse_unk_) tokens.push_back(unk_token_);
      open_unk = true;
    }
  }
  if (open_unk) tokens.push_back(unk_token_);
  return std::nullopt;
}

const Bpe::Merge* Bpe::FindMerge(std::int32_t left, std::int32_t right) const {
  const auto it = merges_.find(PairKey(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

std::vector<std::int32_t> Bpe::MergeAll(std::span<const std::int32_t> characters) const {
  std::vector<Symbol> symbols(characters.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](std::int64_t left) {
    const Symbol& symbol = symbols[static_cast<std::size_t>(left)];
    if (symbol.next < 0) return;
    const Merge* merge =
        FindMerge(symbol.token, symbols[static_cast<std::size_t>(symbol.next)].token);
    if (merge != nullptr) queue.push({merge->rank, left, merge->token});
  };
  const auto size = static_cast<std::int64_t>(characters.size());
  for (std::int64_t i = 0; i < size; ++i) {
    const auto index = static_cast<std::size_t>(i);
    symbols[index] = {characters[index], i - 1, i + 1 < size ? i + 1 : -1};
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
    const auto it = vocabulary_.find(word);
    if (it != vocabulary_.end()) found.push_back(it->second);
  }
  if (found.empty()) {
    std::vector<std::int32_t> characters;
    if (const auto unknown = Characters(word, characters); unknown.has_value()) return unknown;
    found = MergeAll(characters);
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
