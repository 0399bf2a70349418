// A terminal that a test gives to a program, and what the program wrote to it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace buttress {

class PseudoTerminal {
 public:
  // `columns` 0 is a terminal that does not say its size.
  explicit PseudoTerminal(int columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    EXPECT_EQ(::grantpt(master_), 0);
    EXPECT_EQ(::unlockpt(master_), 0);
    slave_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct winsize size = {};
    size.ws_col = static_cast<unsigned short>(columns);
    EXPECT_EQ(::ioctl(slave_, TIOCSWINSZ, &size), 0);
    reader_ = std::thread([this] {
      char bytes[4096];
      for (ssize_t n = 0; (n = ::read(master_, bytes, sizeof bytes)) > 0;)
        text_.append(bytes, static_cast<std::size_t>(n));
    });
  }

  ~PseudoTerminal() {
    Text();
    ::close(master_);
  }

  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  // The side of the program; open until Text() is called.
  int fd() const { return slave_; }

  // Waits until every program has closed its side, and returns what they wrote.
  const std::string& Text() {
    if (slave_ >= 0) ::close(slave_);
    slave_ = -1;
    if (reader_.joinable()) reader_.join();
    return text_;
  }

 private:
  int master_;
  int slave_ = -1;
  std::thread reader_;
  std::string text_;  // written by the reader until it is joined
};

// Calls visit(line, stays) for each line that `text` draws on a terminal: up to a line feed, which
// lets it stay, or up to a carriage return, with which the next replaces it. Without colours.
template <class Visit>
void ForEachDrawn(const std::string& text, Visit visit) {
  std::string line;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && std::isalpha(static_cast<unsigned char>(text[i])) == 0) ++i;
    } else if (text[i] == '\n' || text[i] == '\r') {
      const bool stays = text[i] == '\n' || text.compare(i, 2, "\r\n") == 0;
      if (text.compare(i, 2, "\r\n") == 0) ++i;
      visit(line, stays);
      line.clear();
    } else {
      line += text[i];
    }
  }
  if (!line.empty()) visit(line, true);
}

// The lines that are seen in the end.
inline std::vector<std::string> ScreenLines(const std::string& text) {
  std::vector<std::string> lines;
  ForEachDrawn(text, [&lines](const std::string& line, bool stays) {
    if (stays) lines.push_back(line);
  });
  return lines;
}

// The bytes of the longest line that was drawn.
inline std::size_t LongestLine(const std::string& text) {
  std::size_t longest = 0;
  ForEachDrawn(text, [&longest](const std::string& line, bool) {
    longest = std::max(longest, line.size());
  });
  return longest;
}

}  // namespace buttress
