// Decides which prompt of a run is drawn next. A source of prompts makes passes over the dataset,
// each in an order of its own that follows from the run's seed. A prompt may be passed over because
// of its history (run.data.selection; lib/rl/prompt_selection.h has the formulas). That decision
// depends on the seed, the place in the order and the records at the time of the draw, and the
// ledger keeps it. The record of a prompt is read when its turn comes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/schedule/scheduler_types.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/config/sections/data_config.h"
#include "lib/data/prompt_file.h"
#include "lib/data/prompt_set.h"
#include "lib/ledger/rows.h"

namespace buttress {

struct PromptSourceOptions {
  std::uint64_t seed = 1;
  bool shuffle = true;          // false for file order in every pass
  std::int32_t group_size = 8;  // completions of a prompt
  SelectionConfig selection = {};
  bool drop_over_long = false;  // as over_long of the file's configuration
  std::string name = {};        // of the source; empty for run.data.prompts
  std::uint64_t first_row = 0;  // of the file, among the rows of all sources
};

// The result of a draw, in the order of the pass.
struct Draws {
  std::vector<DrawnPrompt> prompts;
  std::vector<SkipRow> skipped;
  std::map<std::uint64_t, PromptRecord> records;  // of the prompts by row, if there is a selection
};

// Not thread-safe.
class PromptSource {
 public:
  // `file` outlives the source.
  PromptSource(const PromptFile& file, PromptSourceOptions options)
      : file_(file), options_(std::move(options)) {
    StartPass(0);
  }

  // Resumes at `cursor`, which comes from the ledger. kInvalidArgument if it is behind the end of
  // the file.
  Status Resume(const PromptCursor& cursor);

  // Draws the next `count` prompts that are not passed over, and moves cursor() behind them.
  // kInvalidArgument if a row is invalid or every prompt is too long; errors of memory.record.
  Result<Draws> Draw(std::int64_t count, const PromptMemory& memory);

  const PromptCursor& cursor() const { return cursor_; }

  // Returns tokens and answer of a drawn prompt, which the draw keeps for the first call.
  // kInvalidArgument if the row is not the prompt that was drawn.
  Result<Prompt> Read(const DrawnPrompt& drawn);

 private:
  std::uint64_t RowAt(std::uint64_t index) const;
  void StartPass(std::uint64_t pass);
  // Whether the prompt is short enough to be drawn.
  Result<bool> Usable(std::uint64_t row) const;

  // The row as records, draws and skips count it.
  std::uint64_t Counted(std::uint64_t row) const { return options_.first_row + row; }

  // A prompt whose turn has come.
  struct Candidate {
    std::uint64_t row = 0;  // of the file
    PromptRecord record;    // default without a selection
  };

  Result<Candidate> Consider(std::uint64_t row, const PromptMemory& memory) const;

  // Returns why each of `candidates`, the usable ones at the cursor, is passed over; nullopt if it
  // is drawn.
  std::vector<std::optional<SkipReason>> Judge(std::span<const Candidate> candidates,
                                               const GresoBases& greso) const;
  Status Keep(const Candidate& candidate, const GresoBases& greso, Draws& draws);

  const PromptFile& file_;
  const PromptSourceOptions options_;
  PromptCursor cursor_;
  std::vector<std::uint32_t> order_;        // of the pass, when shuffled
  std::map<std::uint64_t, Prompt> unread_;  // drawn and not yet leased, by row of the file
};

// All sources of a run, by name, of which each is drawn from as often as its weight in
// run.data.sources asks for, as closely as whole prompts allow. Draw n + 1 is from the source whose
// share of n + 1 draws exceeds what was drawn from it by most, the first of them by name if several
// do; what is passed over counts for nothing. So the prompts of each source depend on the seed and
// on how many were drawn from it, and the mix on nothing but the weights. Not thread-safe.
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
