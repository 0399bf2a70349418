#include "coordinator/prompt_source.h"

#include <numeric>
#include <utility>

#include "lib/base/random.h"

namespace buttress {
namespace {

// Prompts kept between draw and lease; beyond them rows are read again, which is slower and gives the same.
constexpr std::size_t kMaxNotTaken = 16384;

}  // namespace

Status PromptSource::Resume(const PromptCursor& cursor) {
  if (cursor.index > file_.size()) {
    return InvalidArgument("the run has drawn row " + std::to_string(cursor.index) +
                           " of a dataset that now has " + std::to_string(file_.size()) +
                           "; put the old dataset back, or start a new run");
  }
  cursor_ = cursor;
  StartPass(cursor.pass);
  return OkStatus();
}

// Fisher-Yates with numbers that depend on (seed, pass) only.
void PromptSource::StartPass(std::uint64_t pass) {
  if (!options_.shuffle) return;
  order_.resize(file_.size());
  std::iota(order_.begin(), order_.end(), 0U);
  RandomStream random({MixSeed(options_.seed, HashText("prompt order")), pass});
  for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.Below(i)]);
}

std::uint64_t PromptSource::RowAt(std::uint64_t index) const {
  return options_.shuffle ? order_[index] : index;
}

Result<std::vector<DrawnPrompt>> PromptSource::Draw(std::int64_t count) {
  std::vector<DrawnPrompt> drawn;
  while (static_cast<std::int64_t>(drawn.size()) < count) {
    if (cursor_.index == file_.size()) {
      cursor_ = {cursor_.pass + 1, 0};
      StartPass(cursor_.pass);
    }
    const std::uint64_t row = RowAt(cursor_.index);
    BUTTRESS_ASSIGN_OR_RETURN(Prompt prompt, file_.Read(row));
    drawn.push_back({prompt.id, prompt.source, cursor_.pass, row, options_.group_size});
    if (not_taken_.size() < kMaxNotTaken) not_taken_.insert_or_assign(row, std::move(prompt));
    ++cursor_.index;
  }
  return drawn;
}

Result<Prompt> PromptSource::Take(const DrawnPrompt& drawn) {
  if (const auto kept = not_taken_.extract(drawn.row)) return std::move(kept.mapped());
  if (drawn.row < file_.size()) {
    BUTTRESS_ASSIGN_OR_RETURN(Prompt prompt, file_.Read(drawn.row));
    if (prompt.id == drawn.prompt_id) return prompt;
  }
  return InvalidArgument(
      "prompt '" + drawn.prompt_id + "' was drawn from row " + std::to_string(drawn.row) +
      ", which now holds another one; put the old dataset back, or start a new run");
}

}  // namespace buttress
