#include "lib/collectives/cuda/cuda_api.h"

#include "lib/collectives/cuda/nccl.h"

namespace buttress {
namespace {

class CudaApiImpl : public CudaApi {
 public:
  Result<std::unique_ptr<Collective>> MakeNccl(Collective& bootstrap, int device,
                                               std::chrono::milliseconds timeout) override {
    return buttress::MakeNccl(bootstrap, device, timeout);
  }
};

}  // namespace
}  // namespace buttress

extern "C" __attribute__((visibility("default"))) buttress::CudaApi* buttress_cuda_api() {
  static buttress::CudaApiImpl api;
  return &api;
}
