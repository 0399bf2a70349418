#include "lib/verify/math/boxes.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <cstddef>

namespace buttress {
namespace {

constexpr std::size_t kMaxBetween = 60;  // bytes between boxes of one list
constexpr int kMaxWords = 3;
constexpr std::size_t kMaxBoxes = 64;

struct Box {
  std::size_t begin;  // of the command
  std::size_t end;    // after the closing brace
  std::string_view inside;
};

// Returns the length of the box command at `at` with the blanks after it; 0 if there is none.
std::size_t BoxCommand(std::string_view text, std::size_t at) {
  for (const std::string_view command : {"\\boxed", "\\fbox"}) {
    if (!text.substr(at).starts_with(command)) continue;
    std::size_t end = at + command.size();
    while (end < text.size() && text[end] == ' ') ++end;
    return end - at;
  }
  return 0;
}

// Returns the boxes that close, in the order of their ends. One pass with a stack of open braces.
std::vector<Box> AllBoxes(std::string_view text) {
  struct Open {
    std::size_t at;
    std::size_t command;  // npos: the brace does not belong to a box
  };

  std::vector<Box> boxes;
  std::vector<Open> open;
  std::size_t box_brace = std::string_view::npos;
  std::size_t box_command = std::string_view::npos;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      const std::size_t length = BoxCommand(text, i);
      if (length == 0) {
        // \{ and \} are characters. \\\\ before a letter is a command with a doubled backslash.
        if (i + 1 < text.size() && !absl::ascii_isalpha(text[i + 1]) && text[i + 1] != '\\') ++i;
        continue;
      }
      const std::size_t behind = i + length;
      if (behind < text.size() && text[behind] == '{') {
        box_brace = behind;
        box_command = i;
      } else if (behind < text.size() && text[behind] >= '0' && text[behind] <= '9') {
        boxes.push_back({i, behind + 1, text.substr(behind, 1)});  // TeX: \boxed 2
      }
      i = behind - 1;
    } else if (text[i] == '{') {
      open.push_back({i, i == box_brace ? box_command : std::string_view::npos});
    } else if (text[i] == '}' && !open.empty()) {
      const Open last = open.back();
      open.pop_back();
      if (last.command != std::string_view::npos)
        boxes.push_back({last.command, i + 1, text.substr(last.at + 1, i - last.at - 1)});
    }
  }
  return boxes;
}

// Returns whether the text between two boxes joins them to one list.
bool Joins(std::string_view between) {
  if (between.size() > kMaxBetween) return false;
  int words = 0;
  bool separates = false;
  for (std::size_t i = 0; i < between.size();) {
    if (absl::ascii_isalpha(between[i])) {
      std::size_t end = i;
      while (end < between.size() && absl::ascii_isalpha(between[end])) ++end;
      const std::string_view word = between.substr(i, end - i);
      const bool command = i > 0 && between[i - 1] == '\\';
      if (word == "and" || word == "or") separates = true;
      if (!command && ++words > kMaxWords) return false;
      i = end;
      continue;
    }
    if (between[i] == ',' || between[i] == ';') separates = true;
    if (std::string_view(" \t\r\n$,;\\{}()[]&!*").find(between[i]) == std::string_view::npos)
      return false;
    ++i;
  }
  return separates;
}

}  // namespace

std::vector<std::string_view> LastBoxes(std::string_view text) {
  const std::vector<Box> boxes = AllBoxes(text);
  std::vector<std::string_view> last;
  std::size_t begin = text.size();
  for (auto box = boxes.rbegin(); box != boxes.rend() && last.size() < kMaxBoxes; ++box) {
    if (!last.empty()) {
      if (box->end > begin) continue;  // nested in the box after it
      if (!Joins(text.substr(box->end, begin - box->end))) break;
    }
    last.push_back(box->inside);
    begin = box->begin;
  }
  std::reverse(last.begin(), last.end());
  return last;
}

}  // namespace buttress
