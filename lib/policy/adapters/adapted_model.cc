#include "lib/policy/adapters/adapted_model.h"

#include <utility>

#include "lib/policy/adapters/adapters.h"
#include "lib/policy/adapters/peft_folder.h"

namespace buttress {

Status StartAdapters(const LoraConfig& lora, std::uint64_t seed, Transformer& model) {
  BUTTRESS_RETURN_IF_ERROR(CheckTargets(lora, model.config()));
  model.Adapt(DrawnAdapters(lora, model.config(), seed));
  return OkStatus();
}

Status AddAdapters(const std::string& folder, Transformer& model) {
  BUTTRESS_ASSIGN_OR_RETURN(Adapters adapters, LoadAdapters(folder, model.config()));
  model.Adapt(std::move(adapters));
  return OkStatus();
}

}  // namespace buttress
