// Which prompt comes next: passes over the dataset, each in an order of its own that follows from the run's seed.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "lib/base/status.h"
#include "lib/data/prompt_file.h"
#include "lib/ledger/rows.h"

namespace buttress {

struct PromptSourceOptions {
  std::uint64_t seed = 1;
  bool shuffle = true;          // false: file order in every pass
  std::int32_t group_size = 8;  // completions of a prompt
};

// Not thread-safe.
class PromptSource {
 public:
  // `file` outlives the source.
  PromptSource(const PromptFile& file, PromptSourceOptions options)
      : file_(file), options_(options) {
    StartPass(0);
  }

  // Goes on at `cursor`, which the ledger kept. kInvalidArgument: it lies behind the end of the file, so the dataset has changed.
  Status Resume(const PromptCursor& cursor);

  // The next `count` prompts; cursor() has then moved behind them.
  Result<std::vector<DrawnPrompt>> Draw(std::int64_t count);

  const PromptCursor& cursor() const { return cursor_; }

  // Tokens and answer of a drawn prompt. Rendered once: a draw keeps them until they are first asked for; asked again (a lease that was
  // lost), they are read again. kInvalidArgument: the row is not the prompt that was drawn.
  Result<Prompt> Take(const DrawnPrompt& drawn);

 private:
  std::uint64_t RowAt(std::uint64_t index) const;
  void StartPass(std::uint64_t pass);

  const PromptFile& file_;
  const PromptSourceOptions options_;
  PromptCursor cursor_;
  std::vector<std::uint32_t> order_;           // of the pass, when shuffled
  std::map<std::uint64_t, Prompt> not_taken_;  // by row
};

}  // namespace buttress
