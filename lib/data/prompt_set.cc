#include "lib/data/prompt_set.h"

#include <fmt/core.h>

#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "lib/base/text/random.h"

namespace buttress {

Result<PromptSet> PromptSet::Open(const RunSettings& run, const Tokenizer& tokenizer,
                                  const std::string& cache, std::int64_t positions) {
  std::vector<Source> sources;
  std::uint64_t rows = 0;
  for (PromptDataset& dataset : DatasetsOf(run)) {
    dataset.positions = positions;
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

std::vector<std::uint32_t> PromptOrder(std::uint64_t seed, const std::string& name,
                                       std::uint64_t pass, std::uint64_t rows) {
  std::vector<std::uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0U);
  RandomStream random({MixSeed(seed, HashText("prompt order" + name)), pass});
  Shuffle(std::span(order), random);
  return order;
}

}  // namespace buttress
