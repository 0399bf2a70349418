// The tests that every back end of Collective passes. A program for each back end provides a group
// and memory, and runs the tests on every rank.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "lib/collectives/collective.h"

namespace buttress {

// The memory of a back end's buffers.
class SuiteMemory {
 public:
  virtual ~SuiteMemory() = default;
  virtual DeviceKind device() const = 0;
  // Returns a copy of the bytes that lives as long as this object.
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

// Set by the program before it runs the tests.
struct SuiteBackend {
  Collective* group = nullptr;
  Collective* control = nullptr;  // the same ranks on the CPU, to compare results between ranks
  SuiteMemory* memory = nullptr;
};

SuiteBackend& TheBackend();

}  // namespace buttress
