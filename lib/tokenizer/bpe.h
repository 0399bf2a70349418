// Byte pair encoding of words (Sennrich et al. 2016, arXiv 1508.07909), over bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "lib/base/sync.h"
#include "lib/tokenizer/vocabulary.h"

namespace buttress {

// Thread-safe after construction.
class Bpe {
 public:
  struct Spec {
    Vocabulary vocabulary;                                    // keys in the byte-level alphabet
    std::vector<std::pair<std::string, std::string>> merges;  // in order of priority
    bool ignore_merges = false;  // a word that is a token stays whole regardless of the merges
  };

  // Returns kInvalidArgument for a merge whose parts or result are not in the vocabulary.
  static Result<Bpe> Create(Spec spec);

  // Appends the tokens of `word` (raw bytes) to `tokens`, in O(n log n). Returns the offset of the
  // first byte without a token, if there is one; `tokens` is then unchanged.
  std::optional<std::size_t> EncodeWord(std::string_view word,
                                        std::vector<std::int32_t>& tokens) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

  // Returns whether each of the 256 bytes has a token.
  bool covers_all_bytes() const;

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

  const Merge* FindMerge(std::int32_t left, std::int32_t right) const;
  std::vector<std::int32_t> MergeAll(std::string_view word) const;

  Vocabulary vocabulary_;
  std::unordered_map<std::uint64_t, Merge> merges_;  // by left << 32 | right
  std::array<std::int32_t, 256> byte_tokens_{};      // -1: none
  bool ignore_merges_ = false;
  std::unique_ptr<Cache> cache_ = std::make_unique<Cache>();
};

}  // namespace buttress
