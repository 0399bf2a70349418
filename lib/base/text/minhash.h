// A sketch of a sequence of words in a fixed number of bytes, from which near copies can be
// recognised.
//
// MinHash (Broder, "On the resemblance and containment of documents", 1997) over all runs of three
// consecutive words, with one permutation split into bins (Li, Owen and Zhang, "One Permutation
// Hashing", NIPS 2012) and the lowest bits of each minimum (Li and Koenig, "b-Bit Minwise Hashing",
// WWW 2010).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace buttress {

// Sixteen bits of the smallest hash that falls into each bin; 0 for an empty bin.
using MinHash = std::array<std::uint16_t, 32>;

// Not thread-safe.
class MinHasher {
 public:
  // Appends a word, given by a hash that is equal for equal words.
  void Add(std::uint64_t word);

  // Returns the sketch of all words; fewer than three words are one short run.
  // REQUIRES: called once, after the last Add.
  MinHash Finish();

 private:
  void AddRun(std::uint64_t run);

  std::array<std::uint64_t, std::tuple_size_v<MinHash>> least_{};  // 0 for an empty bin
  std::size_t words_ = 0;
  std::uint64_t first_ = 0, second_ = 0, third_ = 0;  // the newest word first
};

// Sketches token ids. Pure.
MinHash SketchTokens(std::span<const std::int32_t> token_ids);

// Estimates the Jaccard similarity of two sets of runs, in [0, 1]. Pure.
double Similarity(const MinHash& a, const MinHash& b);

}  // namespace buttress
