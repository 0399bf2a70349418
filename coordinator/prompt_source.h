// Which prompt comes next: passes over the dataset, each in an order of its own that follows from
// the run's seed. Prompts may be passed over by their history (run.data.selection; the formulas are
// in lib/rl/prompt_selection.h): that depends on the seed, on the place in the order and on what
// the ledger remembers at the moment of the draw, and every decision is journalled.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "coordinator/scheduler_types.h"
#include "lib/base/status.h"
#include "lib/config/sampling_config.h"
#include "lib/data/prompt_file.h"
#include "lib/ledger/rows.h"

namespace buttress {

struct PromptSourceOptions {
  std::uint64_t seed = 1;
  bool shuffle = true;          // false: file order in every pass
  std::int32_t group_size = 8;  // completions of a prompt
  SelectionConfig selection = {};
};

// What a draw brought, in the order of the pass.
struct Draws {
  std::vector<DrawnPrompt> prompts;
  std::vector<SkipRow> skipped;
};

// Not thread-safe.
class PromptSource {
 public:
  // `file` outlives the source.
  PromptSource(const PromptFile& file, PromptSourceOptions options)
      : file_(file), options_(options) {
    StartPass(0);
  }

  // Goes on at `cursor`, which the ledger kept. kInvalidArgument: it lies behind the end of the
  // file, so the dataset has changed.
  Status Resume(const PromptCursor& cursor);

  // The next `count` prompts that are not passed over; cursor() has then moved behind them.
  Result<Draws> Draw(std::int64_t count, const PromptMemory& memory);

  const PromptCursor& cursor() const { return cursor_; }

  // Tokens and answer of a drawn prompt. Rendered once: a draw keeps them until they are first
  // asked for; asked again (a lease that was lost), they are read again. kInvalidArgument: the row
  // is not the prompt that was drawn.
  Result<Prompt> Take(const DrawnPrompt& drawn);

 private:
  std::uint64_t RowAt(std::uint64_t index) const;
  void StartPass(std::uint64_t pass);
  // Why each of `rows`, which stand at the cursor, is passed over; none: it is drawn.
  std::vector<std::optional<SkipReason>> Judge(std::span<const std::uint64_t> rows,
                                               const PromptMemory& memory) const;
  std::optional<SkipReason> JudgeOne(std::uint64_t row, const PromptMemory& memory) const;
  Status Keep(std::uint64_t row, Draws& draws);

  const PromptFile& file_;
  const PromptSourceOptions options_;
  PromptCursor cursor_;
  std::vector<std::uint32_t> order_;           // of the pass, when shuffled
  std::map<std::uint64_t, Prompt> not_taken_;  // by row
};

}  // namespace buttress
