#include "lib/config/sources.h"

#include <algorithm>

namespace buttress {
namespace {

template <class T>
void Replace(T& value, const std::optional<T>& own) {
  if (own) value = *own;
}

DataConfig DataOf(const DataConfig& common, const SourceConfig& source) {
  DataConfig data = common;
  data.sources.clear();
  data.prompts = source.prompts;
  Replace(data.prompt_field, source.prompt_field);
  Replace(data.answer_field, source.answer_field);
  Replace(data.id_field, source.id_field);
  Replace(data.system_prompt, source.system_prompt);
  Replace(data.chat_template, source.chat_template);
  Replace(data.template_arguments, source.template_arguments);
  Replace(data.max_prompt_tokens, source.max_prompt_tokens);
  Replace(data.over_long, source.over_long);
  return data;
}

}  // namespace

std::vector<PromptDataset> DatasetsOf(const RunSettings& run) {
  if (run.data.sources.empty())
    return {{.name = {},
             .section = "run.data",
             .data = run.data,
             .max_tokens = run.sampling.max_tokens}};
  std::vector<PromptDataset> datasets;
  for (const auto& [name, source] : run.data.sources) {
    datasets.push_back({.name = name,
                        .section = "run.data.sources." + name,
                        .weight = source.weight,
                        .data = DataOf(run.data, source),
                        .max_tokens = source.max_tokens.value_or(run.sampling.max_tokens)});
  }
  return datasets;
}

std::int64_t StepsOf(const RunSettings& run, std::uint64_t rows) {
  if (run.epochs == 0) return run.steps;
  const std::int64_t prompts = run.epochs * static_cast<std::int64_t>(rows);
  return (prompts + run.batch.prompts - 1) / run.batch.prompts;
}

std::vector<std::string> MergeVerifiers(RunSettings& run) {
  std::vector<std::string> errors;
  for (const auto& [name, source] : run.data.sources) {
    if (!source.verifier) continue;
    const auto [found, added] = run.reward.by_source.try_emplace(name, *source.verifier);
    if (added || found->second == *source.verifier) continue;
    errors.push_back("run.data.sources." + name + ".verifier = " + *source.verifier +
                     ": run.reward.by_source." + name + " is " + found->second +
                     "; give one of them");
  }
  return errors;
}

}  // namespace buttress
