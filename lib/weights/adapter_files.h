// The files of a folder of low-rank adapters, as peft names them (lib/policy/adapters).
#pragma once

namespace buttress {

inline constexpr char kAdapterConfigName[] = "adapter_config.json";
inline constexpr char kAdapterWeightsName[] = "adapter_model.safetensors";

}  // namespace buttress
