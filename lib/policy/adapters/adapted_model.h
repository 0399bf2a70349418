// Models with adapters.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/report/status.h"
#include "lib/config/lora_config.h"
#include "lib/policy/transformer.h"

namespace buttress {

// Gives the model new adapters, which are trained instead of its parameters. `seed` determines
// them. kInvalidArgument names a target that the model does not have. REQUIRES: lora.on().
Status StartAdapters(const LoraConfig& lora, std::uint64_t seed, Transformer& model);

// Gives the model the adapters of a PEFT folder. The errors of LoadAdapters.
Status AddAdapters(const std::string& folder, Transformer& model);

// Computes without the adapters of a model, if it has any, for as long as it lives: the numbers are
// those of the model that they were added to, bit for bit. Not nested.
class AdaptersOff {
 public:
  explicit AdaptersOff(Transformer& model) : model_(model) { model_.UseAdapters(false); }

  ~AdaptersOff() { model_.UseAdapters(true); }

  AdaptersOff(const AdaptersOff&) = delete;
  AdaptersOff& operator=(const AdaptersOff&) = delete;

 private:
  Transformer& model_;
};

}  // namespace buttress
