// Addresses of the form host:port.
#pragma once

#include <netdb.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

struct AddressFree {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

using AddressList = std::unique_ptr<addrinfo, AddressFree>;

// Resolves the address of a TCP port to listen on, "host:port" or "[::1]:port", to at least one
// address. An empty host stands for every interface. kInvalidArgument if there is none.
Result<AddressList> ResolveListen(const std::string& address);

// Returns what to resolve for `listen`, the first that can be listened on: for a wildcard host both
// families at once and then IPv4 alone.
std::vector<std::string> ListenForms(const std::string& listen);

// Returns the address at which peers reach a server that was told to listen on `listen` and got
// `port`: BoundAddress("127.0.0.1:0", 41234) is "127.0.0.1:41234". A wildcard host (0.0.0.0, [::]
// or none) is replaced by the name of this machine.
std::string BoundAddress(const std::string& listen, int port);

// Returns the parts of `addresses` between its commas; none if it is empty.
std::vector<std::string> AddressesOf(const std::string& addresses);

// Returns `listen` for the process `rank` of a machine: with the port + `rank`, unless the port is
// 0. "off" stays.
std::string RankAddress(const std::string& listen, std::int64_t rank);

}  // namespace buttress
