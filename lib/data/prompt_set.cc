#include "lib/data/prompt_set.h"

#include <fmt/core.h>

#include <limits>
#include <utility>

namespace buttress {

Result<PromptSet> PromptSet::Open(const RunSettings& run, const Tokenizer& tokenizer,
                                  const std::string& cache) {
  std::vector<Source> sources;
  std::uint64_t rows = 0;
  for (PromptDataset& dataset : DatasetsOf(run)) {
    BUTTRESS_ASSIGN_OR_RETURN(
        auto file, PromptFile::Open(dataset, tokenizer, AnswerFormsOf(run.reward), cache));
    const std::uint64_t first = std::exchange(rows, rows + file->size());
    sources.push_back({std::move(dataset), std::move(file), first});
  }
  if (rows > std::numeric_limits<std::uint32_t>::max())
    return InvalidArgument(fmt::format("the datasets have {} rows; expected {} at most", rows,
                                       std::numeric_limits<std::uint32_t>::max()));
  return PromptSet(std::move(sources));
}

}  // namespace buttress
