// Byte pair encoding of words (Sennrich et al. 2016, arXiv 1508.07909), over characters. Byte-level
// BPE writes each byte as a character (vocabulary.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "lib/tokenizer/vocabulary.h"

namespace buttress {

// Thread-safe after construction.
class Bpe {
 public:
  struct Spec {
    Vocabulary vocabulary;
    std::vector<std::pair<std::string, std::string>> merges;  // in order of priority
    bool ignore_merges = false;  // a word that is a token stays whole regardless of the merges
    bool byte_fallback = false;  // a character without a token becomes <0xHH> of its UTF-8 bytes
    std::string unk_token;       // what other characters become; empty: they are an error
    bool fuse_unk = false;       // one unk_token for neighbouring characters
  };

  // Returns kInvalidArgument for a merge whose parts or result are not in the vocabulary, and for
  // an unk_token that is not.
  static Result<Bpe> Create(Spec spec);

  // Appends the tokens of `word` to `tokens`, in O(n log n). Returns the offset of the first
  // character that has no token and no fallback, if there is one; `tokens` is then unchanged.
  // REQUIRES: valid UTF-8.
  std::optional<std::size_t> EncodeWord(std::string_view word,
                                        std::vector<std::int32_t>& tokens) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  // The token that two neighbouring tokens merge into. Lower ranks merge first.
  struct Merge {
    std::int32_t rank = 0;
    std::int32_t token = 0;
  };

  // Words that were encoded before. The cache is emptied when it is full.
  struct Cache {
    Mutex mutex;
    TextMap<std::vector<std::int32_t>> words GUARDED_BY(mutex);
  };

  Bpe() = default;

  std::int32_t TokenOf(std::string_view character) const;
  std::optional<std::size_t> Characters(std::string_view word,
                                        std::vector<std::int32_t>& tokens) const;
  const Merge* FindMerge(std::int32_t left, std::int32_t right) const;
  std::vector<std::int32_t> MergeAll(std::span<const std::int32_t> characters) const;

  Vocabulary vocabulary_;
  std::unordered_map<std::uint64_t, Merge> merges_;  // by left << 32 | right
  // Of the characters of byte-level BPE, which are the most frequent; -1: none.
  std::array<std::int32_t, kByteCharacters> character_tokens_{};
  std::array<std::int32_t, 256> fallback_tokens_{};  // <0xHH>; -1: none
  std::int32_t unk_token_ = -1;                      // -1: none
  bool fuse_unk_ = false;
  bool ignore_merges_ = false;
  std::unique_ptr<Cache> cache_ = std::make_unique<Cache>();
};

}  // namespace buttress
