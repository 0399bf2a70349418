// Shows on the console of `buttress launch` what the processes of a run warn of.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace buttress {

// Follows the logs of a folder. The first warning or error of each kind is a notice, with the lines
// that belong to it, such as a traceback; those like it are only in the log. A kind is the role and
// the message up to its first number, quote, colon or field. Not thread-safe.
class LogNotices {
 public:
  // Passes over what the logs of `folder` hold already.
  explicit LogNotices(std::string folder);

  // Returns the notices of the lines that were completed since the last call, in the order of logs
  // and lines, each with "ROLE: " before it. Logs that cannot be read have none.
  std::vector<std::string> Poll();

 private:
  void Read(const std::string& path, const std::string& role, std::vector<std::string>& notices);

  const std::string folder_;
  std::map<std::string, std::uint64_t> read_bytes_;  // by path
  std::set<std::string> known_;
};

}  // namespace buttress
