#include "lib/base/os/heap.h"

#include <malloc.h>

namespace buttress {

void ReturnFreedMemory(std::size_t keep) {
  if (::mallinfo2().fordblks > keep) ::malloc_trim(0);
}

}  // namespace buttress
