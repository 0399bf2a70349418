#include "lib/base/umask.h"

#include <sys/stat.h>

namespace buttress {

void TightenUmask() {
  constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
  ::umask(::umask(kOthersWrite) | kOthersWrite);
}

}  // namespace buttress
