#include "lib/collectives/cuda_library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <filesystem>

#include "lib/base/file.h"
#include "lib/base/sync.h"

namespace buttress {
namespace {

std::string BesideProgram(const std::string& name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return JoinPath(error ? std::string(".") : program.parent_path().string(), name);
}

}  // namespace

int VisibleCudaDevices() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return 0;
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  if (init == nullptr || count == nullptr || init(0) != 0 || count(&devices) != 0) return 0;
  return devices;
}

Result<CudaApi*> OpenCudaLibrary(const std::string& who, const std::string& instead) {
  static Mutex mutex;
  static CudaApi* opened = nullptr;
  MutexLock lock(mutex);
  if (opened != nullptr) return opened;
  if (VisibleCudaDevices() == 0) {
    return FailedPrecondition(
        fmt::format("no CUDA device is visible to {}; use {}, or check nvidia-smi", who, instead));
  }
  const std::string path = BesideProgram("libbuttress_cuda.so");
  // RTLD_GLOBAL, because the CUDA back end of LibTorch registers itself through its symbols.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return FailedPrecondition(fmt::format(
        "cannot open {}: {}; install the CUDA wheels that torch 2.11.0 names, or use {}", path,
        ::dlerror(), instead));
  }
  const auto factory = reinterpret_cast<CudaApiFactory>(::dlsym(library, kCudaApiSymbol));
  if (factory == nullptr)
    return FailedPrecondition(
        fmt::format("{} lacks the symbol {}; it belongs to another build", path, kCudaApiSymbol));
  opened = factory();
  return opened;
}

}  // namespace buttress
