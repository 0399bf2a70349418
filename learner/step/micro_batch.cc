#include "learner/step/micro_batch.h"

#include <torch/types.h>

#include <map>
#include <span>

#include "lib/rl/advantage/estimators.h"

namespace buttress {

namespace {

// Appends the values of `row`, if there are any.
template <class T>
void AppendRow(const std::map<std::size_t, std::vector<T>>& values, std::size_t row,
               std::vector<T>& out) {
  if (const auto own = values.find(row); own != values.end())
    out.insert(out.end(), own->second.begin(), own->second.end());
}

}  // namespace

MicroBatch GatherMicroBatch(const StepState& state, std::int32_t update, std::int32_t round) {
  const Assignment& assignment = state.assignment;
  MicroBatch batch;
  for (const FetchedGroup& fetched : state.groups) {
    const v1::Group& group = fetched.group;
    for (int i = 0; i < fetched.completions(); ++i) {
      const std::size_t row = fetched.row(i);
      if (assignment.update_of_row[row] != update || assignment.micro_batch[row] != round) continue;
      batch.tokens.Add(PromptOf(group), TokensOf(group, i), TrainedSpansOf(group, i));
      batch.rows.push_back(row);
      batch.lengths.push_back(group.head().trained_lengths(i));
      AppendTrainedLogprobs(group, i, batch.sampler_logprobs);
      const std::size_t end = batch.sampler_logprobs.size();
      batch.advantages.resize(end, static_cast<float>(assignment.advantages[row]));
      batch.weights.resize(end, static_cast<float>(assignment.token_weights[row]));
      batch.constant.resize(end, fetched.constant ? 1 : 0);
      AppendRow(state.old_logprobs, row, batch.old_logprobs);
      AppendRow(state.reference_logprobs, row, batch.reference_logprobs);
      AppendRow(state.marks, row, batch.marked);
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
