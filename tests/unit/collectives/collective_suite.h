// One suite for every back end of Collective. A program per back end gives it a group and memory,
// and runs it on every rank.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "lib/collectives/collective.h"

namespace buttress {

// Memory that the back end's buffers lie in.
class SuiteMemory {
 public:
  virtual ~SuiteMemory() = default;
  virtual DeviceKind device() const = 0;
  // Lives as long as this object.
  virtual void* Upload(const void* bytes, std::size_t size) = 0;
  virtual void Download(void* bytes, const void* from, std::size_t size) = 0;
};

class CpuMemory : public SuiteMemory {
 public:
  DeviceKind device() const override { return DeviceKind::kCpu; }

  void* Upload(const void* bytes, std::size_t size) override {
    blocks_.push_back(std::make_unique<char[]>(size + 1));
    std::memcpy(blocks_.back().get(), bytes, size);
    return blocks_.back().get();
  }

  void Download(void* bytes, const void* from, std::size_t size) override {
    std::memcpy(bytes, from, size);
  }

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
};

// Set by the program before the suite runs.
struct SuiteBackend {
  Collective* group = nullptr;
  Collective* control = nullptr;  // on the CPU, same ranks; for comparing results between ranks
  SuiteMemory* memory = nullptr;
};

SuiteBackend& TheBackend();

}  // namespace buttress
