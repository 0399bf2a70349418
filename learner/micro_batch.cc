#include "learner/micro_batch.h"

#include <torch/types.h>

#include <span>

#include "lib/rl/advantage/estimators.h"

namespace buttress {

MicroBatch GatherMicroBatch(const StepState& state, std::int32_t round) {
  MicroBatch batch;
  for (const FetchedGroup& fetched : state.groups) {
    for (const Completion& completion : fetched.group.completions) {
      const std::size_t row = fetched.row(completion);
      if (state.assignment.micro_batch[row] != round) continue;
      batch.tokens.Add(fetched.group.prompt_token_ids, completion.token_ids,
                       completion.trained_spans);
      batch.rows.push_back(row);
      batch.lengths.push_back(TrainedLength(completion));
      AppendTrainedLogprobs(completion, batch.sampler_logprobs);
      const std::size_t end = batch.sampler_logprobs.size();
      batch.advantages.resize(end, static_cast<float>(state.assignment.advantages[row]));
      batch.weights.resize(end, static_cast<float>(state.assignment.token_weights[row]));
      batch.constant.resize(end, fetched.constant ? 1 : 0);
      if (const auto marks = state.marks.find(row); marks != state.marks.end())
        batch.marked.insert(batch.marked.end(), marks->second.begin(), marks->second.end());
    }
  }
  return batch;
}

void ApplyEntropyAdvantages(const Assignment& assignment, const at::Tensor& entropy_M,
                            MicroBatch& batch) {
  const at::Tensor entropy = entropy_M.detach().to(at::kCPU, at::kDouble).contiguous();
  const std::span<const double> all(entropy.const_data_ptr<double>(), batch.advantages.size());
  std::size_t begin = 0;
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const std::size_t row = batch.rows[i];
    std::vector<double> of_tokens(static_cast<std::size_t>(batch.lengths[i]));
    TokenAdvantages(assignment.advantages[row], assignment.entropy_scale[row],
                    all.subspan(begin, of_tokens.size()), of_tokens);
    for (const double advantage : of_tokens)
      batch.advantages[begin++] = static_cast<float>(advantage);
  }
}

}  // namespace buttress
