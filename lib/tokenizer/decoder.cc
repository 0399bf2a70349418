#include "lib/tokenizer/decoder.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "lib/base/text/unicode.h"
#include "lib/tokenizer/json/json_fields.h"
#include "lib/tokenizer/pre_tokenizer.h"
#include "lib/tokenizer/vocabulary.h"

namespace buttress {
namespace {

using nlohmann::json;
using Tokens = std::vector<std::string>;

std::string Concatenated(const Tokens& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), std::string());
}

Status DecodeByteLevel(Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += TokenToBytes(token);
  tokens = {ReplaceInvalidUtf8(bytes)};
  return OkStatus();
}

// Returns the byte of a token such as <0x0A>, or -1.
int FallbackByte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  int byte = -1;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return error == std::errc() && end == token.data() + 5 ? byte : -1;
}

// Joins runs of byte tokens. A run that is not UTF-8 becomes one U+FFFD a byte.
Status DecodeByteFallback(Tokens& tokens) {
  Tokens out;
  std::string run;
  const auto end_run = [&] {
    if (run.empty()) return;
    if (!FirstInvalidUtf8(run)) {
      out.push_back(std::move(run));
    } else {
      for (std::size_t i = 0; i < run.size(); ++i) out.emplace_back("\uFFFD");
    }
    run.clear();
  };
  for (std::string& token : tokens) {
    if (const int byte = FallbackByte(token); byte >= 0) {
      run.push_back(static_cast<char>(byte));
      continue;
    }
    end_run();
    out.push_back(std::move(token));
  }
  end_run();
  tokens = std::move(out);
  return OkStatus();
}

Status Fuse(Tokens& tokens) {
  tokens = {Concatenated(tokens)};
  return OkStatus();
}

// Removes up to `start` copies of `content` from the beginning and up to `stop` from the end.
void StripToken(const std::string& content, std::int32_t start, std::int32_t stop,
                std::string& token) {
  std::string_view rest = token;
  for (; start > 0 && rest.starts_with(content); --start) rest.remove_prefix(content.size());
  for (; stop > 0 && rest.ends_with(content); --stop) rest.remove_suffix(content.size());
  token = std::string(rest);
}

void ReplaceAll(const std::string& from, const std::string& to, std::string& text) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  text = out.append(text, done);
}

}  // namespace

Result<Decoder::Step> Decoder::MakeStep(const json& spec, const std::string& path) {
  BUTTRESS_RETURN_IF_ERROR(ExpectObject(spec, path));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string type, StringMember(spec, path, "type", ""));
  if (type == "ByteLevel") return Step(DecodeByteLevel);
  if (type == "ByteFallback") return Step(DecodeByteFallback);
  if (type == "Fuse") return Step(Fuse);
  if (type == "Metaspace") {
    BUTTRESS_ASSIGN_OR_RETURN(const Metaspace metaspace, ParseMetaspace(spec, path));
    return Step([metaspace](Tokens& tokens) {
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const bool prepended = i == 0 && metaspace.prepend != Metaspace::Prepend::kNever;
        ReplaceAll(metaspace.replacement, prepended ? "" : " ", tokens[i]);
      }
      return OkStatus();
    });
  }
  if (type == "Replace") {
    BUTTRESS_ASSIGN_OR_RETURN(Regex regex, PatternMember(spec, path));
    BUTTRESS_ASSIGN_OR_RETURN(const std::string content, StringMember(spec, path, "content", ""));
    return Step([pattern = std::make_shared<Regex>(std::move(regex)), content](Tokens& tokens) {
      for (std::string& token : tokens) {
        BUTTRESS_ASSIGN_OR_RETURN(token, pattern->ReplaceAll(token, content));
      }
      return OkStatus();
    });
  }
  if (type == "Strip") {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string content, StringMember(spec, path, "content", " "));
    if (content.empty())
      return InvalidArgument(path + ".content is empty; one character is expected");
    BUTTRESS_ASSIGN_OR_RETURN(const std::int32_t start,
                              IdOf(MemberOrNull(spec, "start"), path + ".start", 1 << 20));
    BUTTRESS_ASSIGN_OR_RETURN(const std::int32_t stop,
                              IdOf(MemberOrNull(spec, "stop"), path + ".stop", 1 << 20));
    return Step([content, start, stop](Tokens& tokens) {
      for (std::string& token : tokens) StripToken(content, start, stop, token);
      return OkStatus();
    });
  }
  return InvalidArgument(
      fmt::format("{}.type = '{}' is not supported; ByteLevel, ByteFallback, Fuse, Metaspace, "
                  "Replace, Strip and a Sequence of them are",
                  path, type));
}

Result<Decoder> Decoder::FromJson(const json& spec) {
  const bool sequence = MemberOrNull(spec, "type") == "Sequence";
  const json list = sequence ? MemberOrNull(spec, "decoders") : json::array({spec});
  if (!list.is_array()) return InvalidArgument("decoder.decoders is not a list");
  Decoder out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string path = sequence ? fmt::format("decoder.decoders[{}]", i) : "decoder";
    BUTTRESS_ASSIGN_OR_RETURN(out.steps_.emplace_back(), MakeStep(list[i], path));
    out.byte_level_ = out.byte_level_ || MemberOrNull(list[i], "type") == "ByteLevel";
    out.byte_fallback_ = out.byte_fallback_ || MemberOrNull(list[i], "type") == "ByteFallback";
  }
  return out;
}

Result<std::string> Decoder::Decode(Tokens tokens) const {
  for (const Step& step : steps_) BUTTRESS_RETURN_IF_ERROR(step(tokens));
  return Concatenated(tokens);
}

Result<std::string> Decoder::TokenBytes(const std::string& token) const {
  if (byte_level_) return TokenToBytes(token);
  if (const int byte = FallbackByte(token); byte_fallback_ && byte >= 0)
    return std::string(1, static_cast<char>(byte));
  // A text may lose white space at its beginning, which is here another token's.
  const std::string before = "a";
  BUTTRESS_ASSIGN_OR_RETURN(const std::string first, Decode({before}));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string both, Decode({before, token}));
  return both.starts_with(first) ? both.substr(first.size()) : Decode({token});
}

}  // namespace buttress
