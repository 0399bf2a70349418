// The sequences that run together, as the forward pass packs them, and how much memory they may
// take.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace buttress {

// Packed sequences. Completions of one prompt share its rows: the prompt is a sequence, and each
// completion continues it. A completion that is alone with its prompt is one sequence with it. The
// last token of a completion is predicted and has no row.
struct MicroBatchShape {
  struct Sequence {
    std::int64_t rows = 0;
    std::int64_t prefix = 0;  // rows of the prompt that it continues; 0: none

    bool operator==(const Sequence&) const = default;
  };

  std::vector<Sequence> sequences;
  std::int64_t scored = 0;  // tokens whose log-probs are computed

  std::int64_t rows() const {
    std::int64_t sum = 0;
    for (const Sequence& sequence : sequences) sum += sequence.rows;
    return sum;
  }

  // Adds a prompt of `prompt` tokens and its completions of so many tokens each, of which `scored`
  // are scored.
  void AddGroup(std::int64_t prompt, std::span<const std::int64_t> completions,
                std::int64_t scored_tokens) {
    const auto inputs = [](std::int64_t tokens) { return std::max<std::int64_t>(0, tokens - 1); };
    scored += scored_tokens;
    if (completions.size() == 1) {
      sequences.push_back({prompt + inputs(completions[0]), 0});
      return;
    }
    sequences.push_back({prompt, 0});
    for (const std::int64_t tokens : completions)
      if (inputs(tokens) > 0) sequences.push_back({inputs(tokens), prompt});
  }
};

// The most bytes that a micro-batch takes (local.learner.micro_batch_mib).
struct MicroBatchBound {
  std::function<double(const MicroBatchShape&)> bytes;  // pure; empty: there is no bound
  double most = 0;

  bool Holds(const MicroBatchShape& shape) const { return !bytes || bytes(shape) <= most; }
};

}  // namespace buttress
