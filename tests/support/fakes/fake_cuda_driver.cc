// A libcuda.so.1 for tests: FAKE_GPUS devices (default 2) of FAKE_GPU_GIB GiB (default 80) and
// a driver for CUDA 13.0, on which nothing can be computed. With FAKE_GPUS_FAIL it fails as on a
// machine without a GPU.
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kNoDevice = 100;
constexpr int kInvalid = 1;

int Devices() {
  const char* gpus = std::getenv("FAKE_GPUS");
  return gpus == nullptr ? 2 : std::atoi(gpus);
}

}  // namespace

extern "C" {

int cuInit(unsigned /*flags*/) { return std::getenv("FAKE_GPUS_FAIL") != nullptr ? kNoDevice : 0; }

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = Devices();
  return 0;
}

int cuDeviceGet(int* device, int index) {
  *device = index;
  return index < Devices() ? 0 : kInvalid;
}

int cuDeviceGetName(char* name, int size, int device) {
  std::strncpy(name, device == 0 ? "Fake A" : "Fake B", static_cast<std::size_t>(size));
  return 0;
}

int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  const char* gib = std::getenv("FAKE_GPU_GIB");
  *bytes = static_cast<std::size_t>(gib == nullptr ? 80 : std::atoi(gib)) << 30;
  return device < Devices() ? 0 : kInvalid;
}

int cuDeviceGetUuid_v2(char* uuid, int device) {
  std::memset(uuid, 0, 16);
  uuid[15] = static_cast<char>(device);
  return 0;
}

int cuGetErrorString(int error, const char** text) {
  *text = "no CUDA-capable device is detected";
  return error == kNoDevice ? 0 : kInvalid;
}

}  // extern "C"
