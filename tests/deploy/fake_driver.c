// A libcuda.so.1 for tests on machines without NVIDIA's: FAKE_GPUS devices (default 2) of a driver
// for CUDA 13.0. Nothing can be computed on them.
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags) { return getenv("FAKE_GPUS_FAIL") != NULL ? 100 : (int)flags; }

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

int cuDeviceGetCount(int* count) {
  const char* gpus = getenv("FAKE_GPUS");
  *count = gpus == NULL ? 2 : atoi(gpus);
  return 0;
}

int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}

int cuDeviceGetName(char* name, int size, int device) {
  strncpy(name, device == 0 ? "Fake A" : "Fake B", (size_t)size);
  return 0;
}

int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  *bytes = (size_t)80 << 30;
  return device < 0;
}

int cuDeviceGetUuid_v2(char* uuid, int device) {
  memset(uuid, 0, 16);
  uuid[15] = (char)device;
  return 0;
}

int cuGetErrorString(int error, const char** text) {
  *text = "no CUDA-capable device is detected";
  return error == 0;
}
