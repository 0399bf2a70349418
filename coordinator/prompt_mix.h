// Decides which source of prompts is drawn from next, so that the draws follow the weights of
// run.data.sources as closely as whole prompts allow.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "coordinator/prompt_source.h"
#include "coordinator/schedule/scheduler_types.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/data/prompt_set.h"
#include "lib/ledger/rows.h"

namespace buttress {

// All sources of a run, by name. Draw n + 1 is from the source whose share of n + 1 draws exceeds
// what was drawn from it by most, the first of them by name if several do; what is passed over
// counts for nothing. So the prompts of each source depend on the seed and on how many were drawn
// from it, and the mix on nothing but the weights. Not thread-safe.
class PromptMix {
 public:
  // `prompts` outlives the mix.
  PromptMix(const PromptSet& prompts, const RunSettings& run);

  // The sources with their datasets, before the first draw: what a new ledger begins with.
  static std::vector<SourceRow> NewSources(const PromptSet& prompts);

  // Resumes each source at its cursor. kInvalidArgument if one is behind the end of its file.
  // REQUIRES: `sources` are those of the set.
  Status Resume(std::span<const SourceRow> sources);

  // Draws the next `count` prompts that are not passed over. Errors: those of PromptSource::Draw.
  Result<Draws> Draw(std::int64_t count, const PromptMemory& memory);

  // Of each source, behind the last draw.
  std::vector<PromptCursor> cursors() const;

  // PromptSource::Read of the source that the prompt was drawn from.
  Result<Prompt> Read(const DrawnPrompt& drawn);

 private:
  PromptSource& Next();

  std::vector<PromptSource> sources_;
  std::vector<double> shares_;             // add up to 1
  std::vector<std::uint64_t> first_rows_;  // ascending
};

}  // namespace buttress
