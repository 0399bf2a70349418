// What losses there are: policy losses, importance corrections, KL estimators. Torch-free; the
// functions are in losses/. To add a policy loss: its row here and in loss_table.cc, its function
// and its case in losses/losses.cc, its name in validate_loss.cc, its golden vector. docs/losses.md
// is made from the tables.
//
// Of one token: A advantage, lp its log-prob under the policy that is trained, old that of the
// policy that the ratio divides by, d = lp - old, rho = exp(d); T tokens of its completion; el and
// eh are clip_low and clip_high; sg[] has no gradient.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/rl/loss/loss_choice.h"

namespace buttress {

enum class PolicyLoss : std::uint8_t {
  kPpo,
  kDecoupledPpo,
  kGspo,
  kGspoToken,
  kCispo,
  kGmpo,
  kSapo,
  kGpg,
  kDppoTv,
  kDppoKl,
  kClipCov,
  kKlCov,
};

// Log-probs that a policy loss reads beside the trained policy's.
enum class ReadsLogprobs : std::uint8_t {
  kNone,
  kOld,            // by algorithm.old_policy: recorded, or the learner's own
  kOldAndSampler,  // the learner's own old ones and the recorded ones
};

struct PolicyLossEntry {
  PolicyLoss loss;
  std::string_view name;
  std::string_view formula;   // loss of a token
  std::string_view gradient;  // of it by lp
  std::string_view paper;
  ReadsLogprobs reads = ReadsLogprobs::kOld;
  std::string_view settings;       // of run.algorithm that it reads
  bool reads_completions = false;  // statistics over a completion's tokens
  bool reads_covariance = false;   // tokens marked by the whole step's covariances
  bool has_dual_clip = false;
};

// All policy losses, in the order of PolicyLoss.
std::span<const PolicyLossEntry> PolicyLosses();

// kInvalidArgument with the choices: "algorithm.loss = 'pop' is not a loss; choose one of: ppo,
// ...".
Result<const PolicyLossEntry*> FindPolicyLoss(std::string_view name);

enum class CorrectionMode : std::uint8_t { kNone, kIs, kTis, kMis, kIcePop };
enum class CorrectionLevel : std::uint8_t { kToken, kSequence, kGeometric };
enum class KlEstimator : std::uint8_t { kK1, kK2, kK3, kK3Plus };
enum class OldPolicy : std::uint8_t { kSampler, kLearner };

// Rows in the order of their enumerations.
std::span<const LossChoice> CorrectionModes();
std::span<const LossChoice> CorrectionLevels();
std::span<const LossChoice> KlEstimators();
std::span<const LossChoice> OldPolicies();

// Whether a token whose advantage is 0 has a gradient all the same; if not, groups without
// advantages need not be run.
bool ZeroAdvantageHasGradient(const AlgorithmConfig& algorithm);

// The tables of docs/losses.md.
std::string LossTables();

// One line a policy loss: name, paper, formula.
std::string LossList();

}  // namespace buttress
