#include <absl/strings/ascii.h>
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <string_view>

#include "cli/fleet/fleet.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxHosts = 1000;
constexpr std::int64_t kMaxProcesses = 1000;  // of one kind on one machine

// What ssh, mpirun and gRPC all take for one name; a leading '-' would be an option of ssh.
bool IsName(std::string_view text, std::string_view more) {
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, [more](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' ||
           more.find(c) != std::string_view::npos;
  });
}

bool ParseCount(std::string_view text, std::int64_t& count) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() && count >= 0 &&
         count <= kMaxProcesses;
}

// Returns what is wrong with a field, or "".
std::string ReadField(const std::string& field, Host& host) {
  const std::size_t equals = field.find('=');
  const std::string key = field.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : field.substr(equals + 1);
  if (field == "coordinator") {
    host.coordinator = true;
    return "";
  }
  if (key == "workers" || key == "ranks") {
    if (ParseCount(value, key == "workers" ? host.workers : host.ranks)) return "";
    return fmt::format("'{}': expected {}=N with N from 0 to {}", field, key, kMaxProcesses);
  }
  if (key == "address") {
    host.address = value;
    if (IsName(value, "")) return "";
    return fmt::format("'{}': expected address=NAME, a host name or an IPv4 address", field);
  }
  return fmt::format("unknown field '{}'; choose of coordinator, workers=N, ranks=N, address=NAME",
                     field);
}

std::string CheckHost(const Host& host) {
  if (host.coordinator && host.ranks == 0) {
    return "the coordinator's machine needs ranks=1 or more: rank 0 writes the steps, the "
           "checkpoint and the model into the folder of the run, which launch reads there";
  }
  if (!host.coordinator && host.ranks > 0 && host.name.find_first_of("@_") != std::string::npos) {
    return fmt::format(
        "{}: mpirun takes no user and no '_' in the name of a machine with ranks; "
        "name it by an alias of the ssh configuration",
        host.name);
  }
  if (!host.coordinator && host.workers + host.ranks == 0)
    return fmt::format("{} runs nothing; give it workers=N or ranks=N", host.name);
  return "";
}

// What is wrong with the hosts together, a line per error.
std::string CheckAll(const std::vector<Host>& hosts) {
  std::int64_t coordinators = 0, workers = 0;
  for (const Host& host : hosts) {
    coordinators += host.coordinator ? 1 : 0;
    workers += host.workers;
  }
  std::string errors;
  if (coordinators != 1) {
    errors +=
        fmt::format("\n{} machines have the field coordinator; expected one, on which launch runs",
                    coordinators);
  }
  if (workers == 0) errors += "\nno machine has a rollout worker; give one workers=1";
  if (hosts.size() > kMaxHosts)
    errors += fmt::format("\n{} machines; at most {} are possible", hosts.size(), kMaxHosts);
  return errors;
}

}  // namespace

Result<std::vector<Host>> ParseHosts(const std::string& text, const std::string& file) {
  std::vector<Host> hosts;
  std::set<std::string> seen;
  std::string errors, line;
  std::istringstream lines(text);
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto fail = [&](const std::string& what) {
      if (!what.empty()) errors += fmt::format("\n{}:{}: {}", file, number, what);
    };
    std::istringstream words(line.substr(0, line.find('#')));
    Host host;
    if (!(words >> host.name)) continue;
    if (!IsName(host.name, "@"))
      fail(fmt::format("'{}' is no name of a machine; expected HOST or USER@HOST", host.name));
    host.address = host.name.substr(host.name.find('@') + 1);
    std::string field;
    while (words >> field) fail(ReadField(field, host));
    fail(CheckHost(host));
    if (!seen.insert(host.address).second)
      fail(fmt::format("{} appears twice; give each machine one line", host.address));
    hosts.push_back(host);
  }
  for (std::istringstream all(CheckAll(hosts)); std::getline(all, line);)
    if (!line.empty()) errors += fmt::format("\n{}: {}", file, line);
  if (!errors.empty()) return InvalidArgument(errors.substr(1));
  return hosts;
}

}  // namespace buttress
