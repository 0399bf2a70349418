// The Python object by which a vLLM server maps a GPU buffer of this process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace buttress {

// A buffer of uint8 that another process can map.
struct MappableBuffer {
  std::string gpu_uuid;    // as torch writes it: 8-4-4-4-12 hexadecimal digits
  std::string handle;      // cudaIpcMemHandle_t
  std::int64_t bytes = 0;  // [1]
};

// Returns the pickle of a dict from the UUID of each buffer's GPU to the arguments of
// torch.multiprocessing.reductions.rebuild_cuda_tensor, as vLLM's ipc_handles_pickled has it before
// base64. The tensor is uint8 of shape [bytes].
std::string PickleHandles(const std::vector<MappableBuffer>& buffers);

}  // namespace buttress
