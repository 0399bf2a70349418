// `learner sft`: supervised training on conversations, or on prompts and responses, with the model
// and optimizer of the learner.
#pragma once

#include <cstdint>
#include <string>

#include "learner/sft/sft_data.h"
#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"
#include "lib/config/run_config.h"

namespace buttress {

struct SftOptions {
  std::string model;  // Hugging Face folder; random weights if it has no safetensors
  // Its ends, max_tokens (0: the model's positions) and vocab_size come from the model.
  SftDataOptions data;
  std::string out;
  std::string held_out;         // a dataset of the same fields; empty: none
  double held_out_share = 0;    // of the rows of `data`, instead of `held_out`
  std::int64_t eval_every = 0;  // steps between held-out losses; 0: a tenth of `steps`
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
  std::int64_t micro_batch_mib = 0;  // as local.learner.micro_batch_mib
  ZeroStage zero = ZeroStage::k0;
  bool expert_parallel = false;
  std::int64_t context_parallel = 1;  // ranks that divide the rows of a pass
  LoraConfig lora;
};

// Trains on the ranks of `control`: each takes its share of every batch, and gradients are
// summed. Rank 0 shows progress on stdout and writes a Hugging Face folder, or a folder of peft if
// adapters are trained. The loss is the mean
// cross-entropy over the trained tokens of the batch; that of all held-out rows is shown before the
// first step, every `eval_every` steps, and after the last.
Status RunSft(const SftOptions& options, Collective& control);

}  // namespace buttress
