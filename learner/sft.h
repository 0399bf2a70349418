// `learner sft`: supervised training on prompt and response pairs, with the model and optimizer of
// the learner.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/status.h"
#include "lib/collectives/collective.h"
#include "lib/config/run_config.h"

namespace buttress {

struct SftOptions {
  std::string model;  // Hugging Face folder; random weights if it has no safetensors
  std::string data;
  std::string out;
  std::string prompt_field = "prompt";
  std::string response_field = "response";
  std::int64_t steps = 400;
  std::int64_t batch = 128;
  double lr = 3e-3;
  std::int64_t warmup_steps = 20;
  std::uint64_t seed = 1;
  ModelDtype dtype = ModelDtype::kFloat32;
  ComputeDevice device = ComputeDevice::kCpu;
  bool share_gpu = false;  // ranks may share a GPU
  std::int64_t threads = 1;
  std::int64_t micro_batch_tokens = 16384;
};

// Trains on the ranks of `control`: each takes its share of every batch, and gradients are
// summed. Rank 0 shows progress on stdout and writes a Hugging Face folder. The loss is the mean
// cross-entropy over the response tokens of the batch.
Status RunSft(const SftOptions& options, Collective& control);

}  // namespace buttress
