// The file of `buttress launch --hosts`: one machine a line.
//
//   # name           what it runs
//   node1            coordinator ranks=1 workers=1 address=10.0.0.1
//   admin@node2      ranks=1 workers=3
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

struct Host {
  std::string name;          // what ssh is given: a host, user@host, or an alias of its config
  std::string address;       // name or IPv4 address by which the other machines reach it
  bool coordinator = false;  // the coordinator runs there, and `buttress launch`
  std::int64_t workers = 0;
  std::int64_t ranks = 0;  // of the learner
};

// Reads the text of a hosts file; messages call it `file`. Exactly one machine is the coordinator's
// and has a rank; there is a worker, and no idle machine. kInvalidArgument with "FILE:LINE: ..." in
// a line per error.
Result<std::vector<Host>> ParseHosts(const std::string& text, const std::string& file);

}  // namespace buttress
