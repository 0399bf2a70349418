// The lines that a program prints while it works. On a terminal one live line stands below those
// that stay, and is replaced in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace buttress {

// Not thread-safe.
class Terminal {
 public:
  enum class Tone : std::uint8_t {
    kPlain,
    kStep,     // pairs of a word and its number
    kWarning,  // what should be looked at
  };

  // `file` outlives the object. It gets a live line and colours if it is a terminal that can
  // replace a line (TERM), and no colours if NO_COLOR is set.
  explicit Terminal(std::FILE* file);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool live() const { return live_; }

  // Columns of a line: 120 at most, and on a terminal less than it is wide at the moment.
  std::size_t columns() const;

  // Prints a line, or several, that stay.
  void Print(std::string_view text, Tone tone = Tone::kPlain);

  // Replaces the live line, cut to columns(). Does nothing where there is none.
  void Show(std::string_view line, Tone tone = Tone::kPlain);

  // Removes the live line.
  void Clear();

 private:
  void Write(std::string_view text);
  std::string Painted(std::string_view text, Tone tone) const;

  std::FILE* const file_;
  bool live_ = false;
  bool colours_ = false;
  std::string shown_;  // the live line as it was written
};

}  // namespace buttress
