// The memory that the tensors of one learner rank take on its device, planned part by part before
// any of them exists. Without LibTorch.
//
// A test and bench/train/memory.py hold the plan against training steps.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/checks/pass_memory.h"
#include "lib/config/run_config.h"
#include "lib/policy/model_config.h"
#include "lib/rl/micro_batch_shape.h"

namespace buttress {

// A micro-batch of the longest prompts and completions of the run: as many completions of a group
// as fit, then as many groups of a step; the last completion is shorter. A completion that does not
// fit is alone.
MicroBatchShape FullMicroBatch(const RunConfig& config, const ModelConfig& model);

// local.learner.micro_batch_mib: the most that MemoryPlan::pass() of a micro-batch may be.
MicroBatchBound BoundOf(const RunSettings& run, const LearnerConfig& learner,
                        const ModelConfig& model);

// Bytes of one rank.
struct MemoryPlan {
  double weights = 0;
  double gradients = 0;    // float32
  double masters = 0;      // of bfloat16 weights under run.optim.precision: fp32_master
  double moments = 0;      // of AdamW
  double reference = 0;    // the start model, for kl_coef > 0; two units if it stays on the disk
  double gathered = 0;     // zero: 3: the unit in use and the next one
  double activations = 0;  // of a micro-batch, kept for its backward pass
  double block = 0;        // of blocks while they are computed, beyond what is kept
  double head = 0;         // of the head: logits and their gradient
  double update = 0;       // gradients of a unit that are gathered, tensors of the optimizer
  double libraries = 0;    // of a GPU: CUDA, cuBLAS and NCCL

  // There whatever the tokens.
  double state() const;

  // What a micro-batch takes: its activations, and the block or head that is computed.
  double pass() const;

  // The most at one time. Block, head and update follow one another, and the update comes when no
  // activations are left.
  double peak() const;
};

// Plans a rank of a job of `ranks` for micro-batches of `shape`. `stage` is not kAuto. Of several
// ranks, each holds 1 / ranks of the gradients, and next to a block or the head the whole ones of
// units whose sums over the ranks are not complete; stage 0 gathers those of a unit again for its
// update. Stages 1 and 2 hold 1 / ranks of masters and moments; stage 3 of the weights as well, and
// two units whole.
MemoryPlan PlanLearnerMemory(const RunConfig& config, const ModelConfig& model,
                             const MicroBatchShape& shape, std::int64_t ranks, ZeroStage stage);

// The parts that are not 0 with their names, in the order of MemoryPlan.
std::vector<std::pair<std::string, double>> PartsOf(const MemoryPlan& plan);

// "12.3 GiB at most: weights 0.9 GiB, gradients 1.8 GiB, ...".
std::string DescribePlan(const MemoryPlan& plan);

// What lowers the largest part of a plan, for errors.
std::string AdviceFor(const MemoryPlan& plan, const RunConfig& config);

// Returns local.learner.zero or, for `auto`, the lowest stage at which a rank of a job of `ranks`
// fits into `bytes` with a full micro-batch; the highest of a single rank is 0. kInvalidArgument if
// none fits: what is needed, what there is, and what to change.
Result<ZeroStage> ChooseZeroStage(const RunConfig& config, const ModelConfig& model,
                                  std::int64_t ranks, double bytes);

}  // namespace buttress
