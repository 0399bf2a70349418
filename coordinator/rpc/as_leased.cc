#include "coordinator/rpc/as_leased.h"

#include <fmt/core.h>

#include "lib/base/text/digest.h"
#include "lib/base/text/random.h"
#include "lib/experience/codec.h"
#include "lib/experience/group.h"

namespace buttress {

SampledAs SampledAsOf(const v1::Group& group) {
  SampledAs sampled{
      group.head().source(), PromptDigest(PromptOf(group)), *FromProto(group.sampling()), {}};
  for (const v1::PolicyVersion& version : group.head().versions())
    sampled.versions.push_back(*FromProto(version));
  return sampled;
}

std::string PromptDigest(std::span<const std::int32_t> token_ids) {
  return Sha256Of({reinterpret_cast<const char*>(token_ids.data()), token_ids.size_bytes()});
}

SamplingParams SamplingOf(const RunTerms& terms, const DrawnPrompt& prompt) {
  SamplingParams sampling = terms.sampling;
  if (const auto own = terms.max_tokens.find(prompt.source); own != terms.max_tokens.end())
    sampling.max_tokens = own->second;
  sampling.seed = MixSeed(MixSeed(terms.seed, HashText(prompt.prompt_id)), prompt.pass);
  return sampling;
}

Status CheckAsLeased(Turn& turn, const GroupRow& group, const SampledAs& sampled) {
  const auto refuse = [&](const std::string& what) {
    return InvalidArgument(
        fmt::format("group {} is not what was leased: {}", group.group_id, what));
  };
  if (sampled.source != group.prompt.source)
    return refuse(fmt::format("source '{}', expected '{}'", sampled.source, group.prompt.source));
  auto leased = turn.leased_prompts.find(group.group_id);
  if (leased == turn.leased_prompts.end()) {  // leased before this process started
    BUTTRESS_ASSIGN_OR_RETURN(const Prompt prompt, turn.prompts.Read(group.prompt));
    leased = turn.leased_prompts.emplace(group.group_id, PromptDigest(prompt.token_ids)).first;
  }
  if (sampled.prompt_digest != leased->second) return refuse("other prompt tokens");
  if (sampled.sampling != SamplingOf(turn.terms, group.prompt))
    return refuse("other sampling parameters");
  for (const PolicyVersion& version : sampled.versions) {
    const std::string announced = turn.scheduler.DigestOf(version).value_or("");
    if (announced.empty() || version.digest != announced) {
      return refuse(fmt::format("version {} with the digest '{}', announced was '{}'",
                                ToString(version), ToHex(version.digest), ToHex(announced)));
    }
  }
  return OkStatus();
}

}  // namespace buttress
