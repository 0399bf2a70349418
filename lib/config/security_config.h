// The settings of local.security: who may connect to the ports of a run.
#pragma once

#include <string>

namespace buttress {

// The first four are set, or none. Without them every port is plain text and must listen on
// loopback.
struct SecurityConfig {
  std::string certificate;
  std::string key;
  std::string ca;
  std::string tokens;
  bool insecure = false;
  std::string name;

  template <class V>
  void Visit(V& v) {
    v("certificate", certificate,
      "PEM file: this machine's certificate; with the next three, all ports speak TLS and want a "
      "token");
    v("key", key, "PEM file: its private key");
    v("ca", ca,
      "PEM file: the authority that signs every certificate of the run, those of peers included");
    v("tokens", tokens,
      "folder with the token of each role: worker.token, learner.token, operator.token, "
      "monitor.token; each program reads those that it needs; deploy/make-certs.sh creates all");
    v("insecure", insecure,
      "allow ports that other machines reach without TLS and tokens: anybody there can take part "
      "in the run");
    v("name", name,
      "name that the certificate of every peer has, whatever address it is reached by; empty: a "
      "certificate has the host of the address");
  }
};

}  // namespace buttress
