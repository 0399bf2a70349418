#include "lib/collectives/cuda_library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>

#include "lib/base/os/file.h"
#include "lib/base/thread/sync.h"
#include "lib/collectives/collective.h"
#include "lib/collectives/gpu_choice.h"

namespace buttress {
namespace {

std::string BesideProgram(const std::string& name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return JoinPath(error ? std::string(".") : program.parent_path().string(), name);
}

// NVIDIA's driver, which the machine has and no package of ours. It stays open.
Result<void*> OpenDriver() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return FailedPrecondition("NVIDIA's driver (libcuda.so.1) is missing");
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const int error = init == nullptr ? -1 : init(0);
  if (error == 0) return driver;
  const auto describe =
      reinterpret_cast<int (*)(int, const char**)>(::dlsym(driver, "cuGetErrorString"));
  const char* text = nullptr;
  if (describe == nullptr || describe(error, &text) != 0 || text == nullptr) text = "no reason";
  return FailedPrecondition(fmt::format("NVIDIA's driver says: {} (error {})", text, error));
}

template <class Function>
Result<Function> Find(void* driver, const char* name) {
  const auto function = reinterpret_cast<Function>(::dlsym(driver, name));
  if (function != nullptr) return function;
  return FailedPrecondition(fmt::format("NVIDIA's driver lacks {}; install 580 or newer", name));
}

// The allocator of LibTorch reads it when the library is opened. Micro-batches have many sizes;
// without expandable segments they leave gaps that no later one fits into.
void UseExpandableSegments() {
  if (std::getenv("PYTORCH_ALLOC_CONF") == nullptr)
    ::setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", 0);
}

}  // namespace

Result<int> CountCudaDevices() {
  BUTTRESS_ASSIGN_OR_RETURN(void* driver, OpenDriver());
  BUTTRESS_ASSIGN_OR_RETURN(const auto count, Find<int (*)(int*)>(driver, "cuDeviceGetCount"));
  int devices = 0;
  if (count(&devices) != 0 || devices == 0)
    return FailedPrecondition("NVIDIA's driver shows no GPU (CUDA_VISIBLE_DEVICES may hide it)");
  return devices;
}

int VisibleCudaDevices() {
  const Result<int> devices = CountCudaDevices();
  return devices.ok() ? *devices : 0;
}

Result<std::string> CudaDeviceUuid(int gpu) {
  BUTTRESS_ASSIGN_OR_RETURN(void* driver, OpenDriver());
  BUTTRESS_ASSIGN_OR_RETURN(const auto get, Find<int (*)(int*, int)>(driver, "cuDeviceGet"));
  BUTTRESS_ASSIGN_OR_RETURN(const auto get_uuid,
                            Find<int (*)(unsigned char*, int)>(driver, "cuDeviceGetUuid_v2"));
  int device = 0;
  std::array<unsigned char, 16> uuid{};
  if (get(&device, gpu) != 0 || get_uuid(uuid.data(), device) != 0)
    return FailedPrecondition(fmt::format("NVIDIA's driver knows no GPU {}", gpu));
  std::string text;
  for (const unsigned char byte : uuid) text += fmt::format("{:02x}", byte);
  return text;
}

Result<std::int64_t> CudaDeviceBytes(int gpu) {
  BUTTRESS_ASSIGN_OR_RETURN(void* driver, OpenDriver());
  BUTTRESS_ASSIGN_OR_RETURN(const auto get, Find<int (*)(int*, int)>(driver, "cuDeviceGet"));
  BUTTRESS_ASSIGN_OR_RETURN(const auto total,
                            Find<int (*)(std::size_t*, int)>(driver, "cuDeviceTotalMem_v2"));
  int device = 0;
  std::size_t bytes = 0;
  if (get(&device, gpu) != 0 || total(&bytes, device) != 0)
    return FailedPrecondition(fmt::format("NVIDIA's driver knows no GPU {}", gpu));
  return static_cast<std::int64_t>(bytes);
}

Result<CudaApi*> OpenCudaLibrary(const std::string& who, const std::string& instead) {
  static Mutex mutex;
  static CudaApi* opened = nullptr;
  MutexLock lock(mutex);
  if (opened != nullptr) return opened;
  if (const auto devices = CountCudaDevices(); !devices.ok()) {
    return FailedPrecondition(
        fmt::format("no CUDA device is visible to {}: {}; use {}, or check nvidia-smi", who,
                    devices.status().message(), instead));
  }
  UseExpandableSegments();
  const std::string path = BesideProgram("libbuttress_cuda.so");
  // RTLD_GLOBAL, because the CUDA back end of LibTorch registers itself through its symbols.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return FailedPrecondition(
        fmt::format("cannot open {}: {}; run deploy/setup.sh --cuda, which installs what is "
                    "missing, or use {}",
                    path, ::dlerror(), instead));
  }
  const auto factory = reinterpret_cast<CudaApiFactory>(::dlsym(library, kCudaApiSymbol));
  if (factory == nullptr)
    return FailedPrecondition(
        fmt::format("{} lacks the symbol {}; it belongs to another build", path, kCudaApiSymbol));
  opened = factory();
  return opened;
}

Result<int> OpenGpu(std::int64_t wanted, const std::string& who, const std::string& instead) {
  BUTTRESS_RETURN_IF_ERROR(OpenCudaLibrary(who, instead).status());
  return ChooseGpu(wanted, LocalRankOfLauncher(), VisibleCudaDevices());
}

// The part of the NCCL back end that the programs link; cuda/nccl.cc has the rest. The group is
// formed only if every rank can use CUDA; otherwise every rank reports a rank that cannot.
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
