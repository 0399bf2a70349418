#include "learner/token_batch.h"

#include <torch/torch.h>

#include "lib/base/check.h"

namespace buttress {

void TokenBatch::Add(std::span<const std::int32_t> prompt,
                     std::span<const std::int32_t> completion,
                     std::span<const TokenSpan> spans) {
  BUTTRESS_CHECK(!prompt.empty() && !completion.empty(),
                 "a sequence has a prompt and a completion");
  const auto first_row = static_cast<std::int64_t>(tokens_.size() + prompt.size()) - 1;
  tokens_.insert(tokens_.end(), prompt.begin(), prompt.end());
  tokens_.insert(tokens_.end(), completion.begin(), completion.end() - 1);
  lengths_.push_back(static_cast<std::int64_t>(prompt.size() + completion.size()) - 1);
  const TokenSpan all{0, static_cast<std::int32_t>(completion.size())};
  for (const TokenSpan& span : spans.empty() ? std::span<const TokenSpan>(&all, 1) : spans) {
    BUTTRESS_CHECK(span.begin >= 0 && span.end <= all.end,
                   "trained spans lie within the completion");
    for (std::int32_t t = span.begin; t < span.end; ++t) {
      rows_.push_back(first_row + t);
      targets_.push_back(completion[static_cast<std::size_t>(t)]);
    }
  }
}

TokenLogprobs TokenBatch::Run(Transformer& model,
                              double temperature,
                              std::int64_t chunk_rows,
                              EntropyMode entropy) const {
  const auto indices = at::TensorOptions().dtype(at::kLong);
  const at::Device device = model.parameters().front().second.device();
  const at::Tensor tokens_N = torch::tensor(tokens_, indices).to(device);
  const at::Tensor rows_M = torch::tensor(rows_, indices).to(device);
  const at::Tensor targets_M = torch::tensor(targets_, indices).to(device);
  const at::Tensor hidden_MD = model.Hidden(tokens_N, lengths_).index_select(0, rows_M);
  return ChunkedLogprobs(model, hidden_MD, targets_M, temperature, chunk_rows, entropy);
}

}  // namespace buttress
