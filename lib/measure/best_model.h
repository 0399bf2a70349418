// <out>/best: the best model of a run so far, a Hugging Face folder with best.json, which says why
// it is the best.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {

struct BestMark {
  std::int64_t step = 0;
  std::string by;  // the measure: "eval_accuracy" or "raw_reward_mean"
  double value = 0;

  bool operator==(const BestMark&) const = default;
};

std::string BestModelFolder(const std::string& out);

// Returns the mark of <out>/best; nullopt without one. kDataLoss if best.json is damaged.
Result<std::optional<BestMark>> ReadBest(const std::string& out);

// Whether `mark` beats `best`: by a higher value, by another measure, or because there is no best.
// A value that is not finite never does.
bool IsBetter(const BestMark& mark, const std::optional<BestMark>& best);

// Makes the model `folder`, on the same disk, <out>/best if its mark is better than that of the
// present one, which it replaces; else removes `folder`. A crash leaves the old or the new one, at
// the latest when this is called again. Not for two processes at once.
Status OfferBest(const std::string& out, const std::string& folder, const BestMark& mark);

}  // namespace buttress
