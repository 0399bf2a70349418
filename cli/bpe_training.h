// Learns the merges of a byte-level BPE from text (Sennrich et al. 2016, arXiv 1508.07909).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace buttress {

struct TrainedBpe {
  std::vector<std::string>
      tokens;  // by id, in the byte-level alphabet: its 256 characters, then what merges made
  std::vector<std::pair<std::string, std::string>> merges;  // first ones first
};

// `words` (raw bytes) and how often each occurs. Merges the most frequent pair, of equally frequent
// ones the pair with the smaller ids, until there are `tokens` tokens or no pairs; the same as
// Hugging Face's BpeTrainer. REQUIRES: tokens >= 256.
TrainedBpe TrainBpe(const std::map<std::string, std::int64_t>& words, std::size_t tokens);

}  // namespace buttress
