#include "cli/train/log_notices.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestBytes = 64 << 10;  // read of one log at once
constexpr int kLinesOfNotice = 40;

std::vector<fs::path> LogsOf(const std::string& folder) {
  std::vector<fs::path> logs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".log") logs.push_back(entry.path());
  }
  std::ranges::sort(logs);
  return logs;
}

// Whether `line` begins as a line of lib/base/report/log.h does: "2026-01-01T00:00:00.000Z W ".
bool IsLogLine(std::string_view line) {
  return line.size() > 27 && line[4] == '-' && line[10] == 'T' && line[23] == 'Z' &&
         line[24] == ' ' && line[26] == ' ';
}

// What follows time, level, role, step and version.
std::string_view MessageOf(std::string_view line) {
  line.remove_prefix(std::min(line.find(' ', 27), line.size() - 1) + 1);
  while (line.starts_with("step=") || line.starts_with("version="))
    line.remove_prefix(std::min(line.find(' '), line.size() - 1) + 1);
  return line;
}

// "reward function raised NameError" of "reward function raised NameError: name 'x' is not ...".
std::string KindOf(std::string_view role, std::string_view message) {
  std::size_t end = message.find_first_of("0123456789\":;(=");
  if (end != std::string_view::npos && message[end] == '=') {
    // The name of an alarm is a field and part of the kind; other fields are not.
    end = message.starts_with("alarm alarm=") ? message.find(' ', end) : message.rfind(' ', end);
  }
  const std::string_view kind = role.substr(0, role.find_first_of("-/"));
  return std::string(kind) + ": " + std::string(message.substr(0, end));
}

}  // namespace

LogNotices::LogNotices(std::string folder) : folder_(std::move(folder)) {
  for (const fs::path& log : LogsOf(folder_)) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(log, error);
    if (!error) read_bytes_[log.string()] = bytes;
  }
}

std::vector<std::string> LogNotices::Poll() {
  std::vector<std::string> notices;
  for (const fs::path& log : LogsOf(folder_)) Read(log.string(), log.stem().string(), notices);
  return notices;
}

void LogNotices::Read(const std::string& path, const std::string& role,
                      std::vector<std::string>& notices) {
  std::uint64_t& begin = read_bytes_[path];
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(begin));
  std::string text(kLongestBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  text.resize(text.rfind('\n') + 1);  // an unfinished line waits; npos + 1 is 0
  begin += text.size();
  int room = 0;  // lines that may still belong to the last notice
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    if (line.starts_with("-----")) room = 0;  // mpirun's banner belongs to nobody
    if (!IsLogLine(line)) {
      if (--room >= 0) notices.back().append("\n    ").append(line);
      continue;
    }
    room = 0;
    if (line[25] != 'W' && line[25] != 'E') continue;
    const std::string_view message = MessageOf(line);
    if (!known_.insert(KindOf(role, message)).second) continue;
    notices.push_back(role + ": " + std::string(message));
    room = kLinesOfNotice;
  }
}

}  // namespace buttress
