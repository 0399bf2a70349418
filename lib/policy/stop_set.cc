#include "lib/policy/stop_set.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lib/base/text/unicode.h"

namespace buttress {
namespace {

// Adds the ids of texts that are added tokens, and removes the texts that decoded text leaves out.
Status TakeAddedTokens(const Tokenizer* tokenizer, SamplingParams& sampling) {
  std::vector<std::string> visible;
  for (std::string& text : sampling.stop) {
    if (text.empty()) return InvalidArgument("stop: a text is empty; leave it out");
    if (FirstInvalidUtf8(text).has_value())
      return InvalidArgument("stop: a text is not UTF-8; expected what the model can write");
    if (tokenizer == nullptr)
      return InvalidArgument("stop: texts need the tokenizer of the model; use stop_token_ids");
    const std::int32_t id = tokenizer->AddedTokenId(text);
    if (id >= 0) sampling.stop_token_ids.push_back(id);
    if (id < 0 || !tokenizer->TokenBytes(id).empty()) visible.push_back(std::move(text));
  }
  sampling.stop = std::move(visible);
  return OkStatus();
}

}  // namespace

Status DecideStops(const ModelConfig& model, const Tokenizer* tokenizer, SamplingParams& sampling) {
  BUTTRESS_RETURN_IF_ERROR(TakeAddedTokens(tokenizer, sampling));
  std::vector<std::int32_t>& ids = sampling.stop_token_ids;
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < model.vocab_size) continue;
    return InvalidArgument("stop_token_ids: " + std::to_string(id) +
                           " is not a token of the model; expected 0 to " +
                           std::to_string(model.vocab_size - 1));
  }
  ids.insert(ids.end(), model.eos_token_ids.begin(), model.eos_token_ids.end());
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  if (sampling.min_tokens > sampling.max_tokens) {
    return InvalidArgument(
        "min_tokens = " + std::to_string(sampling.min_tokens) +
        "; expected at most max_tokens = " + std::to_string(sampling.max_tokens));
  }
  if (sampling.min_tokens > 0 && static_cast<std::int64_t>(ids.size()) >= model.vocab_size)
    return InvalidArgument("every token is a stop token; expected min_tokens = 0");
  return OkStatus();
}

Result<SamplingParams> SamplingOfRun(const SamplingConfig& config, const ModelConfig& model,
                                     const Tokenizer& tokenizer) {
  SamplingParams sampling;
  sampling.temperature = config.temperature;
  sampling.top_p = config.top_p;
  sampling.top_k = static_cast<std::int32_t>(config.top_k);
  sampling.max_tokens = static_cast<std::int32_t>(config.max_tokens);
  sampling.min_tokens = static_cast<std::int32_t>(config.min_tokens);
  sampling.stop_token_ids.assign(config.stop_token_ids.begin(), config.stop_token_ids.end());
  sampling.stop = config.stop;
  sampling.include_stop = config.include_stop;
  BUTTRESS_RETURN_IF_ERROR(DecideStops(model, &tokenizer, sampling).Annotate("run.sampling"));
  return sampling;
}

}  // namespace buttress
