// Models with adapters.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/report/status.h"
#include "lib/config/sections/lora_config.h"
#include "lib/policy/transformer.h"

namespace buttress {

// Gives the model adapters, which are trained instead of its parameters: those of lora.adapter, of
// which it keeps a copy as its start, or new ones that `seed` determines. kInvalidArgument names a
// target that the model does not have, or what differs between `lora` and the folder; the errors of
// LoadAdapters. REQUIRES: lora.on().
Status StartAdapters(const LoraConfig& lora, std::uint64_t seed, Transformer& model);

// Gives the model the adapters of a PEFT folder. The errors of LoadAdapters.
Status AddAdapters(const std::string& folder, Transformer& model);

// Computes without the trained adapters of a model, if it has any, for as long as it lives: the
// numbers are those of the model that the training started from, with the adapters of lora.adapter
// if there were some, bit for bit. Not nested.
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
