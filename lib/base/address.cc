#include "lib/base/address.h"

#include <unistd.h>

#include <climits>

namespace buttress {

std::string BoundAddress(const std::string& listen, int port) {
  std::string host = listen.substr(0, listen.rfind(':'));
  if (host == "0.0.0.0" || host == "[::]" || host.empty()) {
    char name[HOST_NAME_MAX + 1] = {};
    host = ::gethostname(name, HOST_NAME_MAX) == 0 ? name : "localhost";
  }
  return host + ":" + std::to_string(port);
}

}  // namespace buttress
