#include "rollout_worker/openai/text_stream.h"

namespace buttress {
namespace {

constexpr char kReplacement[] = "\uFFFD";  // of a character that is not complete

bool ContinuesCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace

std::string TextStream::Add(std::span<const std::int32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  const std::span<const std::int32_t> window = std::span(tokens_).subspan(window_);
  const Result<std::string> before =
      tokenizer_->Decode(window.first(decoded_ - window_), SpecialTokens::kSkip);
  const Result<std::string> now = tokenizer_->Decode(window, SpecialTokens::kSkip);
  if (!before.ok() || !now.ok() || now->ends_with(kReplacement)) return "";
  if (now->size() > before->size()) {
    text_ += now->substr(before->size());
    window_ = decoded_;
    decoded_ = tokens_.size();
  }
  std::size_t certain = text_.size() > held_ ? text_.size() - held_ : 0;
  while (certain > 0 && certain < text_.size() && ContinuesCharacter(text_[certain])) --certain;
  if (certain <= returned_) return "";
  const std::string piece = text_.substr(returned_, certain - returned_);
  returned_ = certain;
  return piece;
}

std::string TextStream::Finish(const std::string& whole) const {
  return whole.starts_with(text_.substr(0, returned_)) ? whole.substr(returned_) : "";
}

}  // namespace buttress
