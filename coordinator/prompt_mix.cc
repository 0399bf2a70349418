#include "coordinator/prompt_mix.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/base/report/check.h"

namespace buttress {

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
