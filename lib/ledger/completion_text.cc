#include "lib/ledger/completion_text.h"

#include <array>
#include <charconv>
#include <type_traits>
#include <utility>

namespace buttress {
namespace {

// More than the longest double or integer.
constexpr std::size_t kNumberBytes = 32;

class Writer {
 public:
  template <class T>
  void Value(T value) {
    if constexpr (std::is_enum_v<T>) {
      Value(static_cast<int>(value));
    } else {
      std::array<char, kNumberBytes> digits{};
      if (text_.back() != '[') text_ += ',';
      text_.append(digits.data(),
                   std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
    }
  }

  void Open() { text_ += text_.empty() || text_.back() == '[' ? "[" : ",["; }

  void Close() { text_ += ']'; }

  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : next_(text.data()), end_(text.data() + text.size()) {}

  // True and past it, if `c` is next.
  bool Skip(char c) {
    if (next_ == end_ || *next_ != c) return false;
    ++next_;
    return true;
  }

  template <class T>
  void Value(T& value) {
    if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number{};
      Value(number);
      value = static_cast<T>(number);
    } else {
      if (!first_) Comma();
      first_ = false;
      const auto [ptr, error] = std::from_chars(next_, end_, value);
      ok_ = ok_ && error == std::errc();
      next_ = ptr;
    }
  }

  void Open() {
    Expect('[');
    first_ = true;
  }

  void Close() { Expect(']'); }

  void Comma() { Expect(','); }

  bool ok() const { return ok_; }

  bool at_end() const { return next_ == end_; }

 private:
  void Expect(char c) { ok_ = Skip(c) && ok_; }

  const char* next_;
  const char* end_;
  bool first_ = true;
  bool ok_ = true;
};

// One completion; `Text` is Writer or Reader.
template <class Text, class Row>
void Fields(Text& text, Row& c) {
  text.Open();
  text.Value(c.outcome);
  text.Value(c.finish_reason);
  text.Value(c.raw_reward);
  text.Value(c.reward);
  text.Value(c.trained_tokens);
  text.Value(c.total_tokens);
  text.Value(c.version_epoch);
  text.Value(c.version_step);
  text.Close();
}

}  // namespace

std::string EncodeCompletions(std::span<const CompletionRow> completions) {
  Writer out;
  out.Open();
  for (const CompletionRow& completion : completions) Fields(out, completion);
  out.Close();
  return out.Take();
}

Result<std::vector<CompletionRow>> DecodeCompletions(std::string_view text) {
  std::vector<CompletionRow> completions;
  Reader in(text);
  in.Open();
  bool closed = in.Skip(']');
  while (in.ok() && !closed) {
    Fields(in, completions.emplace_back());
    closed = in.Skip(']');
    if (!closed) in.Comma();
  }
  if (in.ok() && closed && in.at_end()) return completions;
  return DataLoss("the ledger's completions '" + std::string(text.substr(0, 200)) +
                  "' cannot be read; restore ledger.db from a copy");
}

}  // namespace buttress
