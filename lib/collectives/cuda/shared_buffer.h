// Memory of a GPU that another process maps (CUDA IPC).
#pragma once

#include <string>
#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {

// Freed with the object; a process that has mapped it must not read it afterwards. Not thread-safe.
class SharedBuffer {
 public:
  virtual ~SharedBuffer() = default;

  // The bytes of the cudaIpcMemHandle_t of the memory, which begins at its offset 0.
  virtual const std::string& handle() const = 0;

  // Copies `bytes` to the beginning of the memory. Returns once every process that has mapped it
  // would read them. REQUIRES: they fit.
  virtual Status Write(std::string_view bytes) = 0;
};

}  // namespace buttress
