// The part of the NCCL back end that the programs link. The group is formed only if every rank can
// use CUDA; otherwise every rank reports a rank that cannot. cuda/nccl.cc has the rest.
#include <fmt/core.h>

#include "lib/collectives/collective.h"
#include "lib/collectives/cuda_library.h"

namespace buttress {

Result<std::unique_ptr<Collective>> MakeNcclCollective(Collective& bootstrap, int device,
                                                       std::chrono::milliseconds timeout) {
  const auto api = OpenCudaLibrary("rank " + std::to_string(bootstrap.rank()), "collective: mpi");
  std::string failed(static_cast<std::size_t>(bootstrap.size()), '\0');
  failed[static_cast<std::size_t>(bootstrap.rank())] = api.ok() ? '\0' : '\1';
  const Buffer flags{failed.data(), bootstrap.size(), DType::kUInt8};
  BUTTRESS_RETURN_IF_ERROR(bootstrap.AllReduceSum(flags)->Wait(timeout));
  if (!api.ok()) return api.status();
  if (const auto rank = failed.find('\1'); rank != std::string::npos)
    return FailedPrecondition(fmt::format("rank {} cannot use CUDA; see its log", rank));
  return (*api)->MakeNccl(bootstrap, device, timeout);
}

}  // namespace buttress
