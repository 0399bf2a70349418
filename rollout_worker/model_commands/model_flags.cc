#include "rollout_worker/model_commands/model_flags.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <thread>

#include "lib/collectives/cuda_library.h"
#include "lib/config/choice_option.h"
#include "lib/policy/adapters/adapted_model.h"

namespace buttress {

void ModelFlags::AddTo(CLI::App& app, const std::string& rows, const std::string& columns) {
  app.add_option("--model", model, "Hugging Face folder")->required();
  app.add_option("--adapter", adapter, "PEFT folder of adapters for the model");
  app.add_option("file", file, "JSONL of " + rows)->required();
  AddChoice(app, "--dtype", dtype, "parameters and activations");
  AddChoice(app, "--device", device, "where the model runs");
  app.add_option("--gpu", gpu, "GPU of --device cuda, counted from 0; default: the first")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--threads", threads, "default: one per core")->check(CLI::PositiveNumber);
  app.add_flag("--json", json, "print one JSON object per row instead of " + columns);
}

Result<std::unique_ptr<Transformer>> ModelFlags::Load() const {
  ModelDevice place{.cuda = device == ComputeDevice::kCuda, .index = 0};
  if (place.cuda) {
    BUTTRESS_ASSIGN_OR_RETURN(place.index, OpenGpu(gpu, "this command", "--device cpu"));
  }
  const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  at::set_num_threads(static_cast<int>(threads > 0 ? threads : cores));
  BUTTRESS_ASSIGN_OR_RETURN(auto loaded, Transformer::Load(model, dtype, place));
  if (!adapter.empty()) BUTTRESS_RETURN_IF_ERROR(AddAdapters(adapter, *loaded));
  return loaded;
}

}  // namespace buttress
