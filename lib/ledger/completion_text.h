// The completions of a group as the one JSON text that the ledger keeps of them (schema.h, view
// `completions`).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/ledger/rows.h"

namespace buttress {

// [[outcome,finish_reason,raw_reward,reward,trained_tokens,total_tokens,version_epoch,version_step],...];
// numbers in full precision.
std::string EncodeCompletions(std::span<const CompletionRow> completions);

// kDataLoss for any other text than EncodeCompletions gives.
Result<std::vector<CompletionRow>> DecodeCompletions(std::string_view text);

}  // namespace buttress
