// The sums of all ranks over the tokens and completions of a step, and the measurements that come
// from the sums. Torch.
#pragma once

#include <array>
#include <cstdint>

#include "lib/collectives/collective.h"
#include "lib/experience/group.h"
#include "lib/measure/measurements.h"
#include "lib/rl/assignment.h"
#include "lib/rl/loss/loss.h"
#include "lib/rl/loss/weight_statistics.h"

namespace buttress {

// The sums of the losses of an update on one rank, on the device: to read them, the host waits.
class LossSums {
 public:
  void Add(const LossOutput& loss);

  // Adds KlGradientMass of a micro-batch, [2].
  void AddKlMass(const at::Tensor& mass);

  // [kSampledNats of StepSums], undefined without a loss; and [2], likewise.
  const at::Tensor& losses() const { return losses_; }

  const at::Tensor& kl_mass() const { return kl_mass_; }

 private:
  at::Tensor losses_, kl_mass_;
};

// The sums of one rank, and after an all-reduce those of all ranks.
struct StepSums {
  static constexpr std::size_t kAgeBins = 17;  // ages 0 to 15, and 16 with all above

  enum Index : std::size_t {
    kWeightCounts = static_cast<std::size_t>(LossMetric::kCount),  // kWeightBins of them
    kSampledNats = kWeightCounts + kWeightBins,                    // minus the recorded log-probs
    kSampledTokens,
    kResponses,       // scorable completions
    kDistinct,        // different token sequences among them, within their group
    kFormatted,       // with an answer that the verifier could extract
    kTwiceVerified,   // completions with a verdict of both verifiers
    kDisagreed,       // of them: the verdicts differ
    kKlMass,          // KlGradientMass of all tokens
    kConstantKlMass,  // and of those in groups with constant raw rewards
    kAgeCounts,       // kAgeBins of them: accepted tokens by their age
    kAgeSum = kAgeCounts + kAgeBins,
    kFreshTokens,  // sum of 1 / (1 + age)
    kCount,
  };

  std::array<double, kCount> values{};

  double& operator[](LossMetric metric) { return values[static_cast<std::size_t>(metric)]; }

  double operator[](LossMetric metric) const { return values[static_cast<std::size_t>(metric)]; }

  double& operator[](Index index) { return values[index]; }

  double operator[](Index index) const { return values[index]; }

  // Adds the recorded log-probs and the responses of a group, whether it is trained or not.
  void AddGroup(const v1::Group& group);

  // Adds the ages of the trained tokens of completion `i` in the loss of `step`. The age of a token
  // is the number of versions from the one that sampled it to the one that the step starts from.
  void AddAges(const v1::Group& group, int i, std::int64_t step);

  void Add(const StepSums& other);

  // Adds the sums of an update, and returns `scalar`, a float64 of their device. Waits for the
  // device once.
  double AddLosses(const LossSums& sums, const at::Tensor& scalar);

  Buffer buffer() { return {values.data(), kCount, DType::kFloat64}; }
};

// Appends the recorded log-probs of the trained tokens of completion `i`, in the order of
// TokenBatch.
void AppendTrainedLogprobs(const v1::Group& group, int i, std::vector<float>& logprobs);

// Fills the measurements of loss, entropy and responses. Losses are means over the `updates` whose
// losses are in the sums; shares and means over no tokens are kNotMeasured. Pure.
void MeasureSums(const StepSums& sums, double updates, StepMeasurements& measured);

// Fills the measurements of the batch. `sums`, which went through the batch `epochs` times, adds
// the KL term to the gradient mass. Pure.
void MeasureBatch(const BatchSummary& batch, const StepSums& sums, double epochs,
                  StepMeasurements& measured);

}  // namespace buttress
