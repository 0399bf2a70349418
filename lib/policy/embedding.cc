#include "lib/policy/embedding.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <tuple>

namespace buttress {
namespace {

// For half-precision tables: LibTorch sums the gradient of a row in the dtype of the table on CPUs,
// where a sum stops to grow at 256 times its summands.
class EmbedFunction : public torch::autograd::Function<EmbedFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& table_VD,
                            const at::Tensor& tokens_N) {
    ctx->save_for_backward({tokens_N});
    ctx->saved_data["rows"] = table_VD.size(0);
    return table_VD.index_select(0, tokens_N);
  }

  // Sums over the rows that occur, so that no float32 table is needed.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto [rows_U, row_of_token_N, counts] =
        at::_unique2(ctx->get_saved_variables()[0], /*sorted=*/true, /*return_inverse=*/true);
    const at::Tensor sums_UD =
        at::embedding_dense_backward(grads[0].to(at::kFloat), row_of_token_N, rows_U.size(0),
                                     /*padding_idx=*/-1, /*scale_grad_by_freq=*/false);
    at::Tensor grad_VD =
        at::zeros({ctx->saved_data["rows"].toInt(), grads[0].size(1)}, grads[0].options());
    grad_VD.index_copy_(0, rows_U, sums_UD.to(grad_VD.scalar_type()));
    return {grad_VD, at::Tensor()};
  }
};

}  // namespace

at::Tensor Embed(const at::Tensor& table_VD, const at::Tensor& tokens_N) {
  if (table_VD.scalar_type() == at::kFloat) return at::embedding(table_VD, tokens_N);
  return EmbedFunction::apply(table_VD, tokens_N);
}

}  // namespace buttress
