#include "cli/train/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "lib/base/os/file.h"
#include "tests/support/runs/pseudo_terminal.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kStep = "step 3/10  30%  reward 0.500  unscorable 25%";

class TerminalTest : public testing::Test {
 protected:
  TerminalTest() {
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("NO_COLOR");
  }

  ~TerminalTest() override { ::unsetenv("NO_COLOR"); }

  // What `use` writes to a terminal of `columns`.
  template <class Use>
  static std::string Written(int columns, Use use) {
    PseudoTerminal pty(columns);
    std::FILE* file = ::fdopen(::dup(pty.fd()), "w");
    use(file);
    std::fclose(file);
    return pty.Text();
  }
};

TEST_F(TerminalTest, ALiveLineIsReplacedAndStaysBelowTheOthers) {
  const std::string text = Written(80, [](std::FILE* file) {
    Terminal terminal(file);
    EXPECT_TRUE(terminal.live());
    EXPECT_EQ(terminal.columns(), 79U);
    terminal.Show("one");
    terminal.Show(std::string(200, 'x'));
    terminal.Print("stays");
    terminal.Clear();
  });
  EXPECT_EQ(ScreenLines(text), (std::vector<std::string>{"stays"}));
  EXPECT_EQ(LongestLine(text), 79U);
}

TEST_F(TerminalTest, AWideTerminalHasLinesOf120ColumnsAndOneWithoutSizeOf79) {
  EXPECT_EQ(LongestLine(
                Written(300, [](std::FILE* file) { Terminal(file).Show(std::string(200, 'x')); })),
            120U);
  EXPECT_EQ(
      LongestLine(Written(0, [](std::FILE* file) { Terminal(file).Show(std::string(200, 'x')); })),
      79U);
}

TEST_F(TerminalTest, ColoursAreLeftOutWithNoColor) {
  const auto print = [](std::FILE* file) { Terminal(file).Print(kStep, Terminal::Tone::kStep); };
  EXPECT_THAT(Written(80, print), HasSubstr("\x1b[31munscorable\x1b[0m \x1b[31m25%\x1b[0m"));
  EXPECT_EQ(ScreenLines(Written(80, print)), (std::vector<std::string>{kStep}));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_THAT(Written(80, print), Not(HasSubstr("\x1b[")));
}

TEST_F(TerminalTest, AFileHasNeitherColoursNorALiveLine) {
  const TempDir dir;
  const std::string path = JoinPath(dir.path(), "log");
  std::FILE* file = std::fopen(path.c_str(), "w");
  {
    Terminal terminal(file);
    EXPECT_FALSE(terminal.live());
    terminal.Show("live");
    terminal.Print(kStep, Terminal::Tone::kStep);
  }
  std::fclose(file);
  EXPECT_EQ(*ReadFile(path), std::string(kStep) + "\n");
}

}  // namespace
}  // namespace buttress
