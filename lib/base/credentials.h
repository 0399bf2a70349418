// The TLS certificate and the bearer token of a process, for its gRPC and HTTP ports.
#pragma once

#include <string>
#include <string_view>

namespace buttress {

// Either the first four fields are set, or none: ports without credentials speak plain text, which
// is meant for the loopback interface. A value type; LoadCredentials in lib/config reads the files.
struct Credentials {
  std::string certificate;  // PEM: the chain from the certificate of this machine up to `ca`
  std::string key;          // PEM: the private key of the certificate
  std::string ca;           // PEM: the authority that signs every certificate of the run
  std::string token;        // clients send it as "authorization: Bearer <token>"
  std::string name;         // that a server's certificate has; empty: the host of its address

  bool empty() const { return certificate.empty(); }

  // Returns whether an authorization header carries the token. Runs in constant time.
  bool Admits(std::string_view authorization) const;
};

}  // namespace buttress
