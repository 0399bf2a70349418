// The programs' side of NCCL: every rank can, or every rank says which one cannot. The rest is in
// cuda/nccl.cc.
#include "lib/collectives/collective.h"
#include "lib/collectives/cuda_library.h"

namespace buttress {

Result<std::unique_ptr<Collective>> MakeNcclCollective(Collective& bootstrap, int device,
                                                       std::chrono::milliseconds timeout) {
  const auto api = OpenCudaLibrary("rank " + std::to_string(bootstrap.rank()), "collective: mpi");
  std::string lacking(static_cast<std::size_t>(bootstrap.size()), '\0');
  lacking[static_cast<std::size_t>(bootstrap.rank())] = api.ok() ? '\0' : '\1';
  const Buffer flags{lacking.data(), bootstrap.size(), DType::kUInt8};
  BUTTRESS_RETURN_IF_ERROR(bootstrap.AllReduceSum(flags)->Wait(timeout));
  if (!api.ok()) return api.status();
  if (const auto first = lacking.find('\1'); first != std::string::npos) {
    return FailedPrecondition("rank " + std::to_string(first) +
                              " cannot use CUDA; its own message says why");
  }
  return (*api)->MakeNccl(bootstrap, device, timeout);
}

}  // namespace buttress
