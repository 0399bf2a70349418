#include "learner/step/micro_batch.h"

#include <torch/types.h>

#include <algorithm>
#include <map>
#include <span>

#include "lib/base/report/check.h"
#include "lib/rl/advantage/advantage.h"

namespace buttress {
namespace {

// Appends the values of `row`, if there are any.
template <class T>
void AppendRow(const std::map<std::size_t, std::vector<T>>& values, std::size_t row,
               std::vector<T>& out) {
  if (const auto own = values.find(row); own != values.end())
    out.insert(out.end(), own->second.begin(), own->second.end());
}

// Appends the advantages of the trained tokens of completion `i` until there are `end`: that of the
// completion, or those of its turns, each of which holds whole trained spans.
void AppendAdvantages(const Assignment& assignment, const v1::Group& group, int i, std::size_t row,
                      std::size_t end, std::vector<float>& advantages) {
  if (assignment.turn_offsets.empty())
    return advantages.resize(end, static_cast<float>(assignment.advantages[row]));
  auto turn = std::ranges::find(group.turns(), i, &v1::Turn::completion);
  auto advantage = assignment.turn_advantages.begin() + assignment.turn_offsets[row];
  for (const TokenSpan& span : TrainedSpansOf(group, i)) {
    for (; turn->end() <= span.begin; ++turn) ++advantage;
    advantages.insert(advantages.end(), static_cast<std::size_t>(span.end - span.begin),
                      static_cast<float>(*advantage));
  }
  BUTTRESS_CHECK(advantages.size() == end, "turns hold the trained tokens");
}

}  // namespace

bool TokenBatch::ContinuesLastPrompt(std::span<const std::int32_t> prompt) const {
  return prompt_sequence_ >= 0 && static_cast<std::int64_t>(prompt.size()) == prompt_length_ &&
         std::equal(prompt.begin(), prompt.end(), tokens_.begin() + prompt_row_);
}

void TokenBatch::Add(std::span<const std::int32_t> prompt, std::span<const std::int32_t> completion,
                     std::span<const TokenSpan> spans) {
  BUTTRESS_CHECK(!prompt.empty() && !completion.empty(), "prompt and completion must not be empty");
  const auto inputs = static_cast<std::int64_t>(completion.size()) - 1;
  const auto continues = [&](std::int64_t length) {
    if (length == 0) return;
    lengths_.push_back(length);
    prefixes_.push_back(prompt_sequence_);
  };
  if (ContinuesLastPrompt(prompt)) {
    std::int64_t& length = lengths_[static_cast<std::size_t>(prompt_sequence_)];
    const std::int64_t first_completion = length - prompt_length_;
    length = prompt_length_;
    continues(first_completion);  // 0 from the third completion on
    continues(inputs);
  } else {
    prompt_sequence_ = static_cast<std::int64_t>(lengths_.size());
    prompt_row_ = static_cast<std::int64_t>(tokens_.size());
    prompt_length_ = static_cast<std::int64_t>(prompt.size());
    tokens_.insert(tokens_.end(), prompt.begin(), prompt.end());
    lengths_.push_back(prompt_length_ + inputs);
    prefixes_.push_back(-1);
  }
  const auto completion_row = static_cast<std::int64_t>(tokens_.size());
  tokens_.insert(tokens_.end(), completion.begin(), completion.end() - 1);
  const TokenSpan all{0, static_cast<std::int32_t>(completion.size())};
  for (const TokenSpan& span : spans.empty() ? std::span<const TokenSpan>(&all, 1) : spans) {
    BUTTRESS_CHECK(span.begin >= 0 && span.end <= all.end,
                   "trained spans must lie within the completion");
    for (std::int32_t t = span.begin; t < span.end; ++t) {
      rows_.push_back(t == 0 ? prompt_row_ + prompt_length_ - 1 : completion_row + t - 1);
      targets_.push_back(completion[static_cast<std::size_t>(t)]);
    }
  }
}

MicroBatchShape TokenBatch::shape() const {
  MicroBatchShape shape;
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    const std::int64_t prefix = prefixes_[i];
    shape.sequences.push_back(
        {lengths_[i], prefix < 0 ? 0 : lengths_[static_cast<std::size_t>(prefix)]});
  }
  shape.scored = trained_tokens();
  return shape;
}

ModelPass TokenBatch::Run(Transformer& model, const PassOptions& options) const {
  const auto indices = at::TensorOptions().dtype(at::kLong);
  return ModelPass(model,
                   {torch::tensor(tokens_, indices), lengths_, prefixes_,
                    torch::tensor(rows_, indices), torch::tensor(targets_, indices)},
                   options);
}

TokenBatch FillerTokens() {
  constexpr std::int32_t kToken[] = {0};
  TokenBatch filler;
  filler.Add(kToken, kToken, {});
  return filler;
}

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
      AppendAdvantages(assignment, group, i, row, end, batch.advantages);
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
