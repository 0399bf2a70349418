#include "lib/base/report/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace buttress {
namespace {

// Returns what follows the time, the level and the role.
std::string Logged(std::string_view message, std::string_view value) {
  testing::internal::CaptureStderr();
  Log(kInfo, message, {{"value", value}});
  const std::string line = testing::internal::GetCapturedStderr();
  return line.substr(line.find("buttress ") + std::string("buttress ").size());
}

TEST(LogTest, ValuesWithSpacesAreQuoted) {
  EXPECT_EQ(Logged("message", "plain"), "message value=plain\n");
  EXPECT_EQ(Logged("message", "a \"b\"\nc"), "message value=\"a \\\"b\\\"\\nc\"\n");
  EXPECT_EQ(Logged("message", ""), "message value=\"\"\n");
}

// A name in a request can neither write over a line nor command a terminal.
TEST(LogTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(Logged("a\rb", "\x1b[2J"), "a\\x0db value=\"\\x1b[2J\"\n");
  EXPECT_EQ(Logged("message", "a\tb\x7f"), "message value=\"a\\x09b\\x7f\"\n");
  EXPECT_EQ(Logged("message",
                   "\xc2\x9b"
                   "2J"),
            "message value=\\u009b2J\n")
      << "CSI of one character";
  EXPECT_EQ(Logged("message", "Grüße"), "message value=Grüße\n");
}

}  // namespace
}  // namespace buttress
