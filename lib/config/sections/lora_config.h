// Low-rank adapters (run.lora).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/config/choice.h"
#include "lib/config/limits.h"

namespace buttress {

// The matrices of a block that have adapters, by their names in the checkpoint.
enum class LoraTarget : std::uint8_t { kAll, kQ, kK, kV, kO, kGate, kUp, kDown };

template <>
inline constexpr ChoiceRow<LoraTarget> kChoices<LoraTarget>[] = {
    {LoraTarget::kAll, "all"},    {LoraTarget::kQ, "q_proj"},
    {LoraTarget::kK, "k_proj"},   {LoraTarget::kV, "v_proj"},
    {LoraTarget::kO, "o_proj"},   {LoraTarget::kGate, "gate_proj"},
    {LoraTarget::kUp, "up_proj"}, {LoraTarget::kDown, "down_proj"},
};

struct LoraConfig {
  std::int64_t rank = 0;
  double alpha = 16;
  std::vector<LoraTarget> targets = {LoraTarget::kAll};
  bool rslora = false;
  std::string adapter = {};

  bool on() const { return rank > 0; }

  // Whether matrices of this name have adapters.
  bool has(LoraTarget target) const {
    return std::ranges::any_of(targets, [target](LoraTarget named) {
      return named == target || named == LoraTarget::kAll;
    });
  }

  // What the product of the adapters is multiplied by.
  double scale() const {
    const auto r = static_cast<double>(rank);
    return alpha / (rslora ? std::sqrt(r) : r);
  }

  void Visit(auto& v) {
    v("rank", rank, "rows of A and columns of B; 0 = off, every parameter is trained",
      Between(0, 4096));
    v("alpha", alpha, "the product B A is multiplied by alpha / rank", kAbove0);
    v("targets", targets, "matrices that have adapters");
    v("rslora", rslora, "multiply by alpha / sqrt(rank) instead, as rsLoRA does");
    v("adapter", adapter,
      "folder of peft whose adapters the training starts from, of the same rank, alpha, targets "
      "and "
      "rslora; empty: A is drawn from the seed, and B is 0");
  }
};

}  // namespace buttress
