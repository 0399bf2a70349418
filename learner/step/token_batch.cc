#include "learner/step/token_batch.h"

#include <torch/types.h>

#include <algorithm>

#include "lib/base/report/check.h"

namespace buttress {

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

ModelPass TokenBatch::Run(Transformer& model, const PassOptions& options) const {
  const auto indices = at::TensorOptions().dtype(at::kLong);
  const at::Device device = model.weights().embedding_VD.device();
  return ModelPass(
      model,
      {torch::tensor(tokens_, indices).to(device), lengths_, prefixes_,
       torch::tensor(rows_, indices).to(device), torch::tensor(targets_, indices).to(device)},
      options);
}

}  // namespace buttress
