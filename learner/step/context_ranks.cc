#include "learner/step/context_ranks.h"

#include <torch/types.h>

#include <utility>

#include "learner/step/grad_reducer.h"
#include "lib/policy/exception_status.h"

namespace buttress {

Result<std::unique_ptr<ContextRanks>> ContextRanks::Form(std::int64_t size, Collective& control,
                                                         Collective& tensors,
                                                         std::chrono::milliseconds timeout) {
  if (size == 1) return std::unique_ptr<ContextRanks>();
  const int rank = control.rank(), group = rank / static_cast<int>(size);
  BUTTRESS_ASSIGN_OR_RETURN(auto ranks, tensors.Split(group, rank));
  BUTTRESS_ASSIGN_OR_RETURN(auto across, control.Split(rank % static_cast<int>(size), rank));
  return std::unique_ptr<ContextRanks>(
      new ContextRanks(std::move(ranks), std::move(across), timeout));
}

ContextRanks::ContextRanks(std::unique_ptr<Collective> ranks, std::unique_ptr<Collective> across,
                           std::chrono::milliseconds timeout)
    : ranks_(std::move(ranks)), across_(std::move(across)), timeout_(timeout) {}

at::Tensor ContextRanks::AllToAll(const at::Tensor& parts) {
  at::Tensor given = at::empty_like(parts);
  const Status status = ranks_->AllToAll(BufferOf(parts), BufferOf(given))->Join(timeout_);
  if (!status.ok()) throw StatusError(status.Annotate("exchange of rows and heads"));
  return given;
}

at::Tensor ContextRanks::AllGather(const at::Tensor& own) {
  auto shape = own.sizes().vec();
  shape.insert(shape.begin(), size());
  at::Tensor all = at::empty(shape, own.options());
  const Status status = ranks_->AllGather(BufferOf(own), BufferOf(all))->Join(timeout_);
  if (!status.ok()) throw StatusError(status.Annotate("log-probs of a context group"));
  return all;
}

}  // namespace buttress
