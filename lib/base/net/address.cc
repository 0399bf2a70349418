#include "lib/base/net/address.h"

#include <sys/socket.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <sstream>

namespace buttress {
namespace {

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

bool IsWildcard(const std::string& host) {
  return host == "0.0.0.0" || host == "[::]" || host.empty();
}

}  // namespace

Result<AddressList> ResolveListen(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos)
    return InvalidArgument(address + " has no port; expected host:port");
  std::string host = HostOf(address);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                  address.c_str() + colon + 1, &hints, &list);
  if (error != 0) return InvalidArgument(address + ": " + ::gai_strerror(error));
  return AddressList(list);
}

std::vector<std::string> ListenForms(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  if (colon == std::string::npos || !IsWildcard(HostOf(listen))) return {listen};
  const std::string port = listen.substr(colon);
  return {"[::]" + port, "0.0.0.0" + port};
}

std::string BoundAddress(const std::string& listen, int port) {
  std::string host = HostOf(listen);
  if (IsWildcard(host)) {
    char name[HOST_NAME_MAX + 1] = {};
    host = ::gethostname(name, HOST_NAME_MAX) == 0 ? name : "localhost";
  }
  return host + ":" + std::to_string(port);
}

std::vector<std::string> AddressesOf(const std::string& addresses) {
  std::vector<std::string> parts;
  std::istringstream text(addresses);
  for (std::string part; std::getline(text, part, ',');) parts.push_back(part);
  return parts;
}

std::string RankAddress(const std::string& listen, std::int64_t rank) {
  const std::size_t colon = listen.rfind(':');
  const int port = colon == std::string::npos ? 0 : std::atoi(listen.c_str() + colon + 1);
  return port == 0 ? listen : listen.substr(0, colon + 1) + std::to_string(port + rank);
}

}  // namespace buttress
