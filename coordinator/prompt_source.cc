#include "coordinator/prompt_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/base/report/check.h"
#include "lib/base/text/random.h"
#include "lib/data/prompt_set.h"
#include "lib/rl/prompt_selection.h"

namespace buttress {
namespace {

// Prompts that are kept between draw and lease. Further ones are read from the file again, with the
// same result.
constexpr std::size_t kMaxUnread = 16384;

}  // namespace

Status PromptSource::Resume(const PromptCursor& cursor) {
  if (cursor.index > file_.size()) {
    return InvalidArgument(
        fmt::format("the run has drawn row {} of a dataset that now has {} rows; "
                    "put the old dataset back, or start a new run",
                    cursor.index, file_.size()));
  }
  cursor_ = cursor;
  StartPass(cursor.pass);
  return OkStatus();
}

void PromptSource::StartPass(std::uint64_t pass) {
  if (options_.shuffle) order_ = PromptOrder(options_.seed, options_.name, pass, file_.size());
}

std::uint64_t PromptSource::RowAt(std::uint64_t index) const {
  return options_.shuffle ? order_[index] : index;
}

Result<Draws> PromptSource::Draw(std::int64_t count, const PromptMemory& memory) {
  Draws draws;
  std::vector<Candidate> considered;
  std::uint64_t dropped = 0;  // since the last prompt that was drawn
  while (static_cast<std::int64_t>(draws.prompts.size()) < count) {
    if (cursor_.index == file_.size()) {
      cursor_ = {cursor_.pass + 1, 0, cursor_.drawn};
      StartPass(cursor_.pass);
    }
    const bool choose = options_.selection.mode == SelectionMode::kMopps;
    const auto candidates =
        choose ? static_cast<std::uint64_t>(options_.selection.mopps.candidates) : 1;
    const std::uint64_t end = std::min<std::uint64_t>(cursor_.index + candidates, file_.size());
    considered.clear();
    for (std::uint64_t index = cursor_.index; index < end; ++index) {
      BUTTRESS_ASSIGN_OR_RETURN(const bool usable, Usable(RowAt(index)));
      if (usable) {
        BUTTRESS_ASSIGN_OR_RETURN(Candidate candidate, Consider(RowAt(index), memory));
        considered.push_back(std::move(candidate));
      } else {
        draws.skipped.push_back(
            {cursor_.pass, Counted(RowAt(index)), SkipReason::kOverLong, options_.name});
      }
    }
    dropped = considered.empty() ? dropped + 1 : 0;
    if (dropped > file_.size()) {
      return InvalidArgument(
          (options_.name.empty() ? "" : "source '" + options_.name + "': ") +
          "every prompt is longer than max_prompt_tokens; raise it or change the dataset");
    }
    const auto reasons = Judge(considered, memory.greso);
    for (std::size_t i = 0; i < considered.size(); ++i) {
      if (reasons[i]) {
        draws.skipped.push_back(
            {cursor_.pass, Counted(considered[i].row), *reasons[i], options_.name});
      } else {
        BUTTRESS_RETURN_IF_ERROR(Keep(considered[i], memory.greso, draws));
      }
    }
    cursor_.index = end;
  }
  return draws;
}

Result<bool> PromptSource::Usable(std::uint64_t row) const {
  if (!options_.drop_over_long) return true;
  const Status status = file_.Read(row).status();
  if (status.code() == StatusCode::kOutOfRange) return false;
  BUTTRESS_RETURN_IF_ERROR(status);
  return true;
}

Result<PromptSource::Candidate> PromptSource::Consider(std::uint64_t row,
                                                       const PromptMemory& memory) const {
  Candidate candidate{row, {}};
  if (options_.selection.mode != SelectionMode::kNone) {
    BUTTRESS_ASSIGN_OR_RETURN(candidate.record, memory.record(Counted(row)));
  }
  return candidate;
}

std::vector<std::optional<SkipReason>> PromptSource::Judge(std::span<const Candidate> candidates,
                                                           const GresoBases& greso) const {
  if (candidates.empty()) return {};
  if (options_.selection.mode != SelectionMode::kMopps) {
    const auto& [row, record] = candidates.front();
    return {
        PassedOver(options_.selection, options_.seed, {cursor_.pass, Counted(row)}, record, greso)};
  }
  const std::uint64_t seed =
      MixSeed(MixSeed(options_.seed, HashText("prompt success rate")), cursor_.pass);
  std::vector<double> rates;
  for (const auto& [row, record] : candidates)
    rates.push_back(ThompsonRate(record, {seed, Counted(row)}));
  std::vector<std::optional<SkipReason>> reasons(candidates.size(), SkipReason::kFarther);
  reasons[NearestRate(rates, options_.selection.mopps.target)].reset();
  return reasons;
}

Status PromptSource::Keep(const Candidate& candidate, const GresoBases& greso, Draws& draws) {
  BUTTRESS_ASSIGN_OR_RETURN(Prompt prompt, file_.Read(candidate.row));
  const std::uint64_t counted = Counted(candidate.row);
  const bool by_greso = options_.selection.mode == SelectionMode::kGreso;
  draws.prompts.push_back({prompt.id, prompt.source, cursor_.pass, counted, options_.group_size,
                           by_greso ? GresoDrawProbability(candidate.record, greso) : 1});
  if (options_.selection.mode != SelectionMode::kNone) draws.records[counted] = candidate.record;
  ++cursor_.drawn;
  if (unread_.size() < kMaxUnread) unread_.insert_or_assign(candidate.row, std::move(prompt));
  return OkStatus();
}

Result<Prompt> PromptSource::Read(const DrawnPrompt& drawn) {
  const std::uint64_t row = drawn.row - options_.first_row;
  if (const auto kept = unread_.extract(row)) return std::move(kept.mapped());
  if (row < file_.size()) {
    BUTTRESS_ASSIGN_OR_RETURN(Prompt prompt, file_.Read(row));
    if (prompt.id == drawn.prompt_id) return prompt;
  }
  return InvalidArgument(
      fmt::format("prompt '{}' was drawn from row {}, which now holds another one; "
                  "put the old dataset back, or start a new run",
                  drawn.prompt_id, row));
}

PromptMix::PromptMix(const PromptSet& prompts, const RunSettings& run) {
  double sum = 0;
  for (const PromptSet::Source& source : prompts.sources()) sum += source.settings.weight;
  for (const PromptSet::Source& source : prompts.sources()) {
    sources_.emplace_back(
        *source.file,
        PromptSourceOptions{run.seed, run.data.shuffle,
                            static_cast<std::int32_t>(run.sampling.group_size), run.data.selection,
                            source.settings.data.over_long == OverLong::kDrop, source.settings.name,
                            source.first_row});
    shares_.push_back(source.settings.weight / sum);
    first_rows_.push_back(source.first_row);
  }
}

std::vector<SourceRow> PromptMix::NewSources(const PromptSet& prompts) {
  std::vector<SourceRow> rows;
  for (const PromptSet::Source& source : prompts.sources()) {
    rows.push_back({.name = source.settings.name,
                    .dataset = {source.file->size(), source.file->sha256()},
                    .cursor = {}});
  }
  return rows;
}

Status PromptMix::Resume(std::span<const SourceRow> sources) {
  BUTTRESS_CHECK(sources.size() == sources_.size(), "the ledger has the sources of the run");
  for (std::size_t i = 0; i < sources.size(); ++i)
    BUTTRESS_RETURN_IF_ERROR(sources_[i].Resume(sources[i].cursor));
  return OkStatus();
}

PromptSource& PromptMix::Next() {
  std::uint64_t drawn = 0;
  for (const PromptSource& source : sources_) drawn += source.cursor().drawn;
  std::size_t next = 0;
  double most = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const double lack = shares_[i] * static_cast<double>(drawn + 1) -
                        static_cast<double>(sources_[i].cursor().drawn);
    if (i > 0 && lack <= most) continue;
    most = lack;
    next = i;
  }
  return sources_[next];
}

Result<Draws> PromptMix::Draw(std::int64_t count, const PromptMemory& memory) {
  if (sources_.size() == 1) return sources_.front().Draw(count, memory);
  Draws draws;
  for (std::int64_t n = 0; n < count; ++n) {
    BUTTRESS_ASSIGN_OR_RETURN(Draws one, Next().Draw(1, memory));
    std::ranges::move(one.prompts, std::back_inserter(draws.prompts));
    std::ranges::move(one.skipped, std::back_inserter(draws.skipped));
    draws.records.merge(one.records);
  }
  return draws;
}

std::vector<PromptCursor> PromptMix::cursors() const {
  std::vector<PromptCursor> cursors;
  for (const PromptSource& source : sources_) cursors.push_back(source.cursor());
  return cursors;
}

Result<Prompt> PromptMix::Read(const DrawnPrompt& drawn) {
  const auto behind = std::ranges::upper_bound(first_rows_, drawn.row);
  return sources_[static_cast<std::size_t>(behind - first_rows_.begin()) - 1].Read(drawn);
}

}  // namespace buttress
