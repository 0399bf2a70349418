#include "lib/base/os/umask.h"

#include <sys/stat.h>

namespace buttress {

void TightenUmask() {
  constexpr mode_t kKept = S_IWGRP | S_IRWXO;
  ::umask(::umask(kKept) | kKept);
}

}  // namespace buttress
