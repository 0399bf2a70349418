// The rules of run.data.
#include <algorithm>
#include <cctype>

#include "lib/config/rules/rules.h"

namespace buttress {
namespace {

// A name is a part of keys, prompt ids and metrics.
bool IsSourceName(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
}

Rules CheckSource(const std::string& name, const SourceConfig& source, const RunSettings& run) {
  Rules rules("run.data.sources." + name + ".");
  rules.Require(!source.prompts.empty(), "prompts", source.prompts,
                "name a file or folder of prompts");
  rules.Above0("weight", source.weight);
  if (source.max_prompt_tokens) {
    rules.Between("max_prompt_tokens", *source.max_prompt_tokens, 1, run.data.max_prompt_tokens);
  }
  if (source.max_tokens) {
    rules.Between("max_tokens", *source.max_tokens,
                  std::max<std::int64_t>(1, run.sampling.min_tokens), run.sampling.max_tokens);
  }
  return rules;
}

Rules CheckSelection(const SelectionConfig& selection) {
  Rules rules("run.data.selection.");
  rules.Between("greso.keep_easy", selection.greso.keep_easy, 0, 1);
  rules.Between("greso.keep_hard", selection.greso.keep_hard, 0, 1);
  rules.Between("greso.target", selection.greso.target, 0, 1);
  rules.Between("speed.rest", selection.speed.rest, 1, 100);
  rules.Between("mopps.candidates", selection.mopps.candidates, 1, 1024);
  rules.Between("mopps.target", selection.mopps.target, 0, 1);
  rules.Between("mopps.decay", selection.mopps.decay, 0, 1);
  return rules;
}

}  // namespace

Rules CheckData(const RunSettings& run) {
  Rules rules("run.data.");
  const DataConfig& data = run.data;
  rules.Require(!data.prompts.empty() || !data.sources.empty(), "prompts", data.prompts,
                "name a file or folder of prompts, or several in run.data.sources");
  rules.Require(data.prompts.empty() || data.sources.empty(), "prompts", data.prompts,
                "run.data.sources names datasets as well; move this one there, or remove them");
  rules.Between("max_prompt_tokens", data.max_prompt_tokens, 1, kMaxTokens);
  for (const auto& [name, source] : data.sources) {
    rules.Require(IsSourceName(name), "sources", name,
                  "a name of letters, digits, _ and -, 64 at most");
    rules.Add(CheckSource(name, source, run));
  }
  rules.Add(CheckSelection(data.selection));
  return rules;
}

}  // namespace buttress
