// What a port of ours shows and asks for, on gRPC and on HTTP.
#pragma once

#include <string>
#include <string_view>

namespace buttress {

// All four, or none: then ports are plain text, which is for loopback. Value type; LoadCredentials
// (lib/config/credentials.h) makes it.
struct Credentials {
  std::string certificate;  // PEM: this machine's, then whatever stands between it and `ca`
  std::string key;          // PEM
  std::string ca;           // PEM: signs every certificate of the run
  std::string token;        // a client sends it as "authorization: Bearer <token>"

  bool empty() const { return certificate.empty(); }

  // Whether an authorization header carries the token. Takes as long whatever the header holds.
  bool Admits(std::string_view authorization) const;
};

}  // namespace buttress
