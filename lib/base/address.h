// Addresses of the form host:port.
#pragma once

#include <string>

namespace buttress {

// Returns the address at which peers reach a server that was told to listen on `listen` and got
// `port`: BoundAddress("127.0.0.1:0", 41234) is "127.0.0.1:41234". A wildcard host (0.0.0.0, [::]
// or none) is replaced by the name of this machine.
std::string BoundAddress(const std::string& listen, int port);

}  // namespace buttress
