#include <algorithm>
#include <filesystem>
#include <fstream>

#include "coordinator/page/page_data.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLogs = 64;
constexpr std::uintmax_t kTailBytes = 32 << 10;  // of each log
constexpr std::size_t kLineBytes = 400;

std::string TailOf(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return "";
  file.seekg(static_cast<std::streamoff>(size - std::min(size, kTailBytes)));
  std::string text(kTailBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// Whether `line` is a warning or an error of lib/base/report/log.h: "2026-01-01T00:00:00.000Z W
// who ...".
bool IsWarning(std::string_view line) {
  return line.size() > 27 && line[4] == '-' && line[10] == 'T' && line[23] == 'Z' &&
         line[24] == ' ' && (line[25] == 'W' || line[25] == 'E') && line[26] == ' ' &&
         line.find(" alarm alarm=") == std::string_view::npos;
}

}  // namespace

nlohmann::ordered_json NewestWarnings(const std::string& folder, std::size_t most) {
  std::vector<std::string> lines;
  std::error_code error;
  std::size_t logs = 0;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".log" || ++logs > kLogs) continue;
    const std::string text = TailOf(entry.path());
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      if (IsWarning(line)) lines.emplace_back(line.substr(0, kLineBytes));
    }
  }
  std::ranges::sort(lines, std::greater<>());  // they begin with the time
  lines.resize(std::min(lines.size(), most));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const std::string& line : lines) {
    const std::size_t end = std::min(line.find(' ', 27), line.size());
    json.push_back({{"time", line.substr(0, 24)},
                    {"level", line[25] == 'E' ? "error" : "warning"},
                    {"who", line.substr(27, end - 27)},
                    {"text", line.substr(std::min(end + 1, line.size()))}});
  }
  return json;
}

}  // namespace buttress
