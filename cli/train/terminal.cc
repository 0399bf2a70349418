#include "cli/train/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace buttress {
namespace {

constexpr std::size_t kMostColumns = 120;
constexpr std::size_t kUnknownColumns = 80;  // of a terminal that does not say its size

constexpr std::string_view kReplaceLine = "\r\x1b[2K";

std::string_view Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Dims the words, so that the numbers stand out; "unscorable" and its number are red.
std::string PaintedStep(std::string_view line) {
  constexpr std::string_view kDim = "\x1b[2m", kRed = "\x1b[31m", kReset = "\x1b[0m";
  std::string text;
  bool red = false;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    const bool is_word = !word.empty() && std::isalpha(static_cast<unsigned char>(word[0])) != 0;
    red = word == "unscorable" || (red && !is_word);
    text.append(red ? kRed : is_word ? kDim : "").append(word);
    if (red || is_word) text += kReset;
    line.remove_prefix(word.size());
    const std::size_t spaces = std::min(line.find_first_not_of(' '), line.size());
    text.append(line.substr(0, spaces));
    line.remove_prefix(spaces);
  }
  return text;
}

}  // namespace

Terminal::Terminal(std::FILE* file) : file_(file) {
  const std::string_view kind = Variable("TERM");
  live_ = ::isatty(::fileno(file)) == 1 && !kind.empty() && kind != "dumb";
  colours_ = live_ && Variable("NO_COLOR").empty();
}

Terminal::~Terminal() { Clear(); }

std::size_t Terminal::columns() const {
  if (!live_) return kMostColumns;

  struct winsize size {};

  const bool known = ::ioctl(::fileno(file_), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  // A line that fills the last column makes some terminals begin a new one.
  return std::min<std::size_t>(kMostColumns, (known ? size.ws_col : kUnknownColumns) - 1);
}

void Terminal::Print(std::string_view text, Tone tone) {
  const std::string line = Painted(text, tone) + "\n";
  Write(shown_.empty() ? line : std::string(kReplaceLine) + line + shown_);
}

void Terminal::Show(std::string_view line, Tone tone) {
  if (!live_) return;
  std::size_t bytes = std::min(line.size(), columns());
  while (bytes > 0 && bytes < line.size() && (line[bytes] & 0xC0) == 0x80) --bytes;  // UTF-8
  shown_ = Painted(line.substr(0, bytes), tone);
  Write(std::string(kReplaceLine) + shown_);
}

void Terminal::Clear() {
  if (shown_.empty()) return;
  shown_.clear();
  Write(kReplaceLine);
}

void Terminal::Write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

std::string Terminal::Painted(std::string_view text, Tone tone) const {
  if (!colours_ || tone == Tone::kPlain) return std::string(text);
  if (tone == Tone::kStep) return PaintedStep(text);
  return "\x1b[33m" + std::string(text) + "\x1b[0m";
}

}  // namespace buttress
