// Runs the suite over NCCL, bootstrapped by MPI. With `--stuck-rank MODE` it tests a missing rank
// instead (gone_rank.h). Without a GPU it tests only the error message, and reports the rest as
// skipped.
#include <ATen/DeviceAccelerator.h>
#include <torch/types.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "lib/collectives/cuda_library.h"
#include "tests/unit/collectives/collective_suite.h"
#include "tests/unit/collectives/gone_rank.h"

namespace buttress {
namespace {

class GpuMemory : public SuiteMemory {
 public:
  explicit GpuMemory(int device)
      : device_(at::accelerator::getAccelerator(true).value(),
                static_cast<at::DeviceIndex>(device)) {}

  DeviceKind device() const override { return DeviceKind::kDevice; }

  void* Upload(const void* bytes, std::size_t size) override {
    blocks_.push_back(Bytes(const_cast<void*>(bytes), size).to(device_));
    return blocks_.back().data_ptr();
  }

  void Download(void* bytes, const void* from, std::size_t size) override {
    const auto options = at::TensorOptions().dtype(at::kByte).device(device_);
    Bytes(bytes, size)
        .copy_(
            torch::from_blob(const_cast<void*>(from), {static_cast<std::int64_t>(size)}, options));
  }

 private:
  static at::Tensor Bytes(void* bytes, std::size_t size) {
    return torch::from_blob(bytes, {static_cast<std::int64_t>(size)},
                            at::TensorOptions().dtype(at::kByte));
  }

  const at::Device device_;
  std::vector<at::Tensor> blocks_;
};

int RunWithoutGpu(Collective& control) {
  constexpr std::chrono::seconds kTimeout{20};
  const auto group = MakeNcclCollective(control, 0, kTimeout);
  const std::string expected =
      "no CUDA device is visible to rank " + std::to_string(control.rank()) + ": " +
      CountCudaDevices().status().message() + "; use collective: mpi, or check nvidia-smi";
  if (group.status().code() != StatusCode::kFailedPrecondition ||
      group.status().message() != expected) {
    std::fprintf(stderr, "expected: %s\n     got: %s\n", expected.c_str(),
                 group.status().ToString().c_str());
    return 1;
  }
  std::printf("no GPU is visible: all tests skipped; only the refusal was tested\n");
  return 0;
}

int Main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::chrono::seconds kTimeout{60};
  auto control = MakeMpiCollective(kTimeout);
  if (!control.ok()) return 1;
  const int devices = VisibleCudaDevices();
  if (devices == 0) return RunWithoutGpu(**control);
  // NCCL refuses two ranks on the same GPU of one host; different host ids hide that.
  if ((*control)->size() > devices)
    ::setenv("NCCL_HOSTID", ("host-" + std::to_string((*control)->rank())).c_str(), 1);
  const int device = (*control)->rank() % devices;
  auto group = MakeNcclCollective(**control, device, kTimeout);
  if (!group.ok()) {
    std::fprintf(stderr, "%s\n", group.status().ToString().c_str());
    (*control)->Abort();
    return 1;
  }
  GpuMemory memory(device);
  if (argc == 3 && std::strcmp(argv[1], "--stuck-rank") == 0) {
    const int code = RunWithoutLastRank(**group, memory, argv[2]);
    (*control)->Abort();
    return code;
  }
  TheBackend() = {group->get(), control->get(), &memory};
  const int failed = RUN_ALL_TESTS();
  if (failed != 0) {
    (*control)->Abort();
    return failed;
  }
  const Status ended = (*group)->End();
  const Status after = (*group)->Barrier();
  if (ended.ok() && after.code() == StatusCode::kFailedPrecondition) return 0;
  std::fprintf(stderr, "end: %s; barrier after it: %s\n", ended.ToString().c_str(),
               after.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) { return buttress::Main(argc, argv); }
