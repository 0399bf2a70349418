// Learns the merges of a byte-level BPE from text (Sennrich et al. 2016, arXiv 1508.07909).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace buttress {

struct TrainedBpe {
  // Tokens by id in the byte-level alphabet: its 256 characters, then the merged tokens.
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string, std::string>> merges;  // in the order of learning
};

// Learns from `words` (raw bytes) with their counts. Each round merges the most frequent pair, and
// among equally frequent pairs the one with the smaller ids, until there are `tokens` tokens or no
// pairs. The result equals that of Hugging Face's BpeTrainer. REQUIRES: tokens >= 256.
TrainedBpe TrainBpe(const std::map<std::string, std::int64_t>& words, std::size_t tokens);

}  // namespace buttress
