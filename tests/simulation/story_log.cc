#include "tests/simulation/story_log.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include "lib/base/report/log.h"
#include "tests/simulation/seams.h"

namespace buttress::simulation {
namespace {

std::function<void(const std::string&)> log_sink;

}  // namespace

void SeamLog(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) asm(
    "__wrap__ZN8buttress3LogENS_8LogLevelESt17basic_string_viewIcSt11char_traitsIcEESt16initializer"
    "_listINS_8LogFieldEE");

void SeamLog(LogLevel, std::string_view message, std::initializer_list<LogField> fields) {
  Pass(Seam::kLog);
  if (!log_sink) return;
  std::string line = "log: " + std::string(message);
  for (const LogField& field : fields) line += " " + field.name + "=" + field.value;
  log_sink(line);
}

StoryLog::StoryLog(std::function<void(const std::string&)> sink) { log_sink = std::move(sink); }

StoryLog::~StoryLog() { log_sink = nullptr; }

}  // namespace buttress::simulation
