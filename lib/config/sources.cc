#include "lib/config/sources.h"

#include <algorithm>

#include "lib/config/token_bounds.h"

namespace buttress {
namespace {

DataConfig DataOf(const DataConfig& common, const SourceConfig& source) {
  DataConfig data = common;
  data.sources.clear();
  data.prompts = source.prompts;
  data.prompt_field = source.prompt_field.value_or(data.prompt_field);
  data.answer_field = source.answer_field.value_or(data.answer_field);
  data.id_field = source.id_field.value_or(data.id_field);
  data.system_prompt = source.system_prompt.value_or(data.system_prompt);
  data.chat_template = source.chat_template.value_or(data.chat_template);
  data.template_arguments = source.template_arguments.value_or(data.template_arguments);
  data.max_prompt_tokens = source.max_prompt_tokens.value_or(data.max_prompt_tokens);
  data.over_long = source.over_long.value_or(data.over_long);
  return data;
}

}  // namespace

std::vector<PromptDataset> DatasetsOf(const RunSettings& run) {
  if (run.data.sources.empty())
    return {
        {.name = {}, .section = "run.data", .data = run.data, .max_tokens = MostBehindPrompt(run)}};
  std::vector<PromptDataset> datasets;
  for (const auto& [name, source] : run.data.sources) {
    datasets.push_back({.name = name,
                        .section = "run.data.sources." + name,
                        .weight = source.weight,
                        .data = DataOf(run.data, source),
                        .max_tokens = run.env.on()
                                          ? run.env.max_tokens
                                          : source.max_tokens.value_or(run.sampling.max_tokens)});
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
