#include "lib/policy/adapters/adapted_model.h"

#include <c10/util/StringUtil.h>

#include <string>
#include <utility>

#include "lib/policy/adapters/adapters.h"
#include "lib/policy/adapters/peft_folder.h"

namespace buttress {
namespace {

// "rank 8, alpha 16, targets q_proj v_proj, rslora off".
std::string Describe(const LoraConfig& lora) {
  std::string targets;
  for (const ChoiceRow<LoraTarget>& row : kChoices<LoraTarget>) {
    if (row.value != LoraTarget::kAll && lora.has(row.value)) targets += c10::str(" ", row.name);
  }
  return c10::str("rank ", lora.rank, ", alpha ", lora.alpha, ", targets", targets, ", rslora ",
                  lora.rslora ? "on" : "off");
}

}  // namespace

Status StartAdapters(const LoraConfig& lora, std::uint64_t seed, Transformer& model) {
  BUTTRESS_RETURN_IF_ERROR(CheckTargets(lora, model.config()));
  if (lora.adapter.empty()) {
    model.Adapt(DrawnAdapters(lora, model.config(), seed));
    return OkStatus();
  }
  BUTTRESS_ASSIGN_OR_RETURN(Adapters adapters, LoadAdapters(lora.adapter, model.config()));
  const std::string needed = Describe(lora), found = Describe(adapters.config);
  if (needed != found) {
    return InvalidArgument("the adapter in " + lora.adapter + " has " + found +
                           "; the settings name " + needed +
                           "; take the settings of the adapter, or leave the adapter out");
  }
  model.Adapt(std::move(adapters), /*keep=*/true);
  return OkStatus();
}

Status AddAdapters(const std::string& folder, Transformer& model) {
  BUTTRESS_ASSIGN_OR_RETURN(Adapters adapters, LoadAdapters(folder, model.config()));
  model.Adapt(std::move(adapters));
  return OkStatus();
}

}  // namespace buttress
