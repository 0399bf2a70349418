// Headless Chromium (the Debian package chromium), where it is installed.
#pragma once

#include <string>

#include "tests/support/runs/quickstart_run.h"

namespace buttress {

inline bool HasBrowser() {
  const TempDir dir;
  return RunToEnd({"sh", "-c", "command -v chromium"}, JoinPath(dir.path(), "log"), 10000) == 0;
}

inline constexpr char kNoBrowser[] = "chromium is not installed (apt-get install chromium)";

struct Rendered {
  std::string dom;  // after the scripts ran
  std::string log;  // with a line "CONSOLE" for each message of the page
};

// Opens `url` as a screen of a phone would, and lets the page run for some seconds of its time.
inline Rendered Render(const std::string& url) {
  const TempDir dir;
  const std::string dom = JoinPath(dir.path(), "dom"), log = JoinPath(dir.path(), "log");
  RunToEnd({"sh", "-c",
            "chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage "
            "--user-data-dir=" +
                dir.path() +
                "/profile --window-size=390,844 --virtual-time-budget=6000 "
                "--enable-logging=stderr --dump-dom \"$0\" > " +
                dom,
            url},
           log, 120000);
  return {TextOf(dom), TextOf(log)};
}

}  // namespace buttress
