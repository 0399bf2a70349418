// Log-probs of the tokens of whole sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/policy/transformer.h"

namespace buttress {

// Returns for each sequence the log-probs (nats) of its tokens after the first, each given those
// before it, under softmax(logits / temperature). Packs the sequences into one forward pass.
// LibTorch's exceptions pass through. REQUIRES: no sequence is empty or longer than the model's
// positions, and temperature > 0.
std::vector<std::vector<float>> SequenceLogprobs(
    Transformer& model, std::span<const std::vector<std::int32_t>> sequences, double temperature);

}  // namespace buttress
