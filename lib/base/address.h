// host:port as settings and files have it.
#pragma once

#include <string>

namespace buttress {

// "127.0.0.1:0" and the port that was bound give "127.0.0.1:41234"; a wildcard host becomes this
// machine's name, which others can reach.
std::string BoundAddress(const std::string& listen, int port);

}  // namespace buttress
