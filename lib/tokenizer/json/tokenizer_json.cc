#include "lib/tokenizer/json/tokenizer_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <utility>

#include "lib/base/report/log.h"
#include "lib/base/text/bounded_json.h"
#include "lib/tokenizer/json/json_fields.h"

namespace buttress {

using nlohmann::json;

namespace {

constexpr std::size_t kAddedTokenBytesMax = 1024;

Result<Vocabulary> ParseVocabulary(const json& vocab) {
  BUTTRESS_RETURN_IF_ERROR(ExpectObject(vocab, "model.vocab"));
  Vocabulary out;
  out.reserve(vocab.size());
  std::unordered_set<std::int32_t> taken;
  for (const auto& [token, value] : vocab.items()) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::int32_t id,
                              IdOf(value, "model.vocab['" + token + "']", kTokenIdEnd - 1));
    if (!taken.insert(id).second)
      return InvalidArgument(
          fmt::format("model.vocab['{}'] = {} is another token's id too", token, id));
    out.emplace(token, id);
  }
  return out;
}

Result<std::pair<std::string, std::string>> ParseMerge(const json& merge, const std::string& path) {
  if (merge.is_string()) {
    const std::string& text = merge.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
      return std::pair(text.substr(0, space), text.substr(space + 1));
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
             merge[1].is_string()) {
    return std::pair(merge[0].get<std::string>(), merge[1].get<std::string>());
  }
  return InvalidArgument(
      fmt::format("{} = {} is neither \"a b\" nor [\"a\", \"b\"]", path, Excerpt(merge)));
}

// Checks the members of the model that would change results if they were set.
Status CheckModelOptions(const json& model) {
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string value, StringMember(model, "model", name, ""));
    if (!value.empty())
      return InvalidArgument(
          fmt::format("{} = '{}' is not supported; null is", MemberPath("model", name), value));
  }
  const json& dropout = MemberOrNull(model, "dropout");
  if (!dropout.is_null() && dropout != 0)
    return InvalidArgument("model.dropout = " + Excerpt(dropout) + " is not supported; null is");
  return OkStatus();
}

Result<Bpe> ParseModel(const json& model) {
  BUTTRESS_RETURN_IF_ERROR(ExpectObject(model, "model"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string type, StringMember(model, "model", "type", "BPE"));
  if (type != "BPE") return InvalidArgument("model.type = '" + type + "' is not supported; BPE is");
  BUTTRESS_RETURN_IF_ERROR(ExpectMembersAmong(
      model, "model",
      {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
       "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
  BUTTRESS_RETURN_IF_ERROR(CheckModelOptions(model));
  Bpe::Spec spec;
  BUTTRESS_ASSIGN_OR_RETURN(spec.vocabulary, ParseVocabulary(MemberOrNull(model, "vocab")));
  BUTTRESS_ASSIGN_OR_RETURN(spec.ignore_merges, BoolMember(model, "model", "ignore_merges", false));
  BUTTRESS_ASSIGN_OR_RETURN(spec.byte_fallback, BoolMember(model, "model", "byte_fallback", false));
  BUTTRESS_ASSIGN_OR_RETURN(spec.unk_token, StringMember(model, "model", "unk_token", ""));
  BUTTRESS_ASSIGN_OR_RETURN(spec.fuse_unk, BoolMember(model, "model", "fuse_unk", false));
  const json& merges = MemberOrNull(model, "merges");
  if (!merges.is_array())
    return InvalidArgument("model.merges = " + Excerpt(merges) + " is not a list");
  spec.merges.reserve(merges.size());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(auto merge,
                              ParseMerge(merges[i], "model.merges[" + std::to_string(i) + "]"));
    spec.merges.push_back(std::move(merge));
  }
  return Bpe::Create(std::move(spec));
}

Result<AddedToken> ParseAddedToken(const json& spec, const std::string& path) {
  BUTTRESS_RETURN_IF_ERROR(ExpectObject(spec, path));
  BUTTRESS_RETURN_IF_ERROR(ExpectMembersAmong(
      spec, path, {"id", "content", "special", "lstrip", "rstrip", "single_word", "normalized"}));
  AddedToken token;
  BUTTRESS_ASSIGN_OR_RETURN(token.id,
                            IdOf(MemberOrNull(spec, "id"), path + ".id", kTokenIdEnd - 1));
  BUTTRESS_ASSIGN_OR_RETURN(token.content, StringMember(spec, path, "content", ""));
  if (token.content.empty() || token.content.size() > kAddedTokenBytesMax)
    return InvalidArgument(fmt::format("{}.content has {} bytes; 1 to {} are expected", path,
                                       token.content.size(), kAddedTokenBytesMax));
  BUTTRESS_ASSIGN_OR_RETURN(token.special, BoolMember(spec, path, "special", false));
  BUTTRESS_ASSIGN_OR_RETURN(token.lstrip, BoolMember(spec, path, "lstrip", false));
  BUTTRESS_ASSIGN_OR_RETURN(token.rstrip, BoolMember(spec, path, "rstrip", false));
  BUTTRESS_ASSIGN_OR_RETURN(token.single_word, BoolMember(spec, path, "single_word", false));
  BUTTRESS_ASSIGN_OR_RETURN(token.normalized, BoolMember(spec, path, "normalized", !token.special));
  return token;
}

// Hugging Face ignores the id in the file and gives an added token its id in the vocabulary or the
// next free one. A file with other ids is refused, because model and tokenizer would disagree.
Result<std::vector<AddedToken>> ParseAddedTokens(const json& list, const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  if (list.is_null()) return tokens;
  if (!list.is_array())
    return InvalidArgument("added_tokens = " + Excerpt(list) + " is not a list");
  std::unordered_set<std::string> seen;
  const auto vocabulary_size = static_cast<std::int32_t>(vocabulary.size());
  std::int32_t largest = -1;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string path = "added_tokens[" + std::to_string(i) + "]";
    BUTTRESS_ASSIGN_OR_RETURN(AddedToken token, ParseAddedToken(list[i], path));
    if (!seen.insert(token.content).second)
      return InvalidArgument(fmt::format("{}.content = '{}' is there twice", path, token.content));
    const auto it = vocabulary.find(token.content);
    const std::int32_t expected =
        it != vocabulary.end() ? it->second : std::max(largest + 1, vocabulary_size);
    if (token.id != expected)
      return InvalidArgument(
          fmt::format("{}.id = {}, but '{}' gets {}, its id in model.vocab or the next free one; "
                      "renumber it or put it into model.vocab",
                      path, token.id, token.content, expected));
    largest = std::max(largest, token.id);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Appends the ids that `special_tokens` gives a special token of the template.
Status AppendIds(const json& piece, const json& special_tokens, const std::string& path,
                 std::vector<std::int32_t>& out) {
  BUTTRESS_RETURN_IF_ERROR(ExpectObject(piece, path));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string name, StringMember(piece, path, "id", ""));
  const json& ids = MemberOrNull(MemberOrNull(special_tokens, name), "ids");
  if (!ids.is_array() || ids.empty())
    return InvalidArgument(fmt::format("{}: special_tokens gives '{}' no ids", path, name));
  for (const json& id : ids) {
    BUTTRESS_ASSIGN_OR_RETURN(out.emplace_back(), IdOf(id, path + ".id", kTokenIdEnd - 1));
  }
  return OkStatus();
}

Result<TokenFrame> ParseTemplate(const json& spec, const std::string& path) {
  BUTTRESS_RETURN_IF_ERROR(
      ExpectMembersAmong(spec, path, {"type", "single", "pair", "special_tokens"}));
  const json& pieces = MemberOrNull(spec, "single");
  if (!pieces.is_array()) return InvalidArgument(path + ".single is not a list");
  TokenFrame frame;
  std::size_t texts = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string piece = fmt::format("{}.single[{}]", path, i);
    if (!pieces[i].is_object()) return InvalidArgument(piece + " is not an object");
    if (pieces[i].contains("Sequence")) {
      ++texts;
      continue;
    }
    BUTTRESS_RETURN_IF_ERROR(
        AppendIds(MemberOrNull(pieces[i], "SpecialToken"), MemberOrNull(spec, "special_tokens"),
                  piece + ".SpecialToken", texts == 0 ? frame.before : frame.after));
  }
  if (texts != 1)
    return InvalidArgument(
        fmt::format("{}.single has the text {} times; once is supported", path, texts));
  return frame;
}

Result<TokenFrame> ParseOne(const json& spec, const std::string& path) {
  BUTTRESS_RETURN_IF_ERROR(ExpectObject(spec, path));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string type, StringMember(spec, path, "type", ""));
  if (type == "ByteLevel") return TokenFrame();
  if (type == "TemplateProcessing") return ParseTemplate(spec, path);
  return InvalidArgument(fmt::format(
      "{}.type = '{}' is not supported; ByteLevel, TemplateProcessing and a Sequence of them are",
      path, type));
}

// Reads TemplateProcessing (its template for a single text), ByteLevel, which changes offsets only,
// and a Sequence of these. kInvalidArgument names any other type.
Result<TokenFrame> ParsePostProcessor(const json& spec) {
  const std::string path = "post_processor";
  if (spec.is_null()) return TokenFrame();
  if (MemberOrNull(spec, "type") != "Sequence") return ParseOne(spec, path);
  const json& list = MemberOrNull(spec, "processors");
  if (!list.is_array()) return InvalidArgument(path + ".processors is not a list");
  TokenFrame all;
  for (std::size_t i = 0; i < list.size(); ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(const TokenFrame one,
                              ParseOne(list[i], fmt::format("{}.processors[{}]", path, i)));
    // Each processor works on the result of those before it.
    all.before.insert(all.before.begin(), one.before.begin(), one.before.end());
    all.after.insert(all.after.end(), one.after.begin(), one.after.end());
  }
  return all;
}

}  // namespace

Result<TokenizerJson> ParseTokenizerJson(std::string_view text) {
  if (NestedDeeper(text)) return InvalidArgument("nested too deeply; the file is damaged");
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object())
    return InvalidArgument("not a JSON object; the file is damaged or of another format");
  BUTTRESS_RETURN_IF_ERROR(
      ExpectMembersAmong(root, "",
                         {"version", "truncation", "padding", "added_tokens", "normalizer",
                          "pre_tokenizer", "post_processor", "decoder", "model"}));
  for (const char* name : {"truncation", "padding"}) {
    if (!MemberOrNull(root, name).is_null()) {
      // transformers turns both off unless a caller asks for them.
      Log(kWarn, "tokenizer.json sets what is not applied: texts are neither cut nor padded",
          {{"member", name}});
    }
  }
  BUTTRESS_ASSIGN_OR_RETURN(Bpe bpe, ParseModel(MemberOrNull(root, "model")));
  BUTTRESS_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer,
                            PreTokenizer::FromJson(MemberOrNull(root, "pre_tokenizer")));
  BUTTRESS_ASSIGN_OR_RETURN(Normalizer normalizer,
                            Normalizer::FromJson(MemberOrNull(root, "normalizer")));
  BUTTRESS_ASSIGN_OR_RETURN(TokenFrame frame,
                            ParsePostProcessor(MemberOrNull(root, "post_processor")));
  BUTTRESS_ASSIGN_OR_RETURN(Decoder decoder, Decoder::FromJson(MemberOrNull(root, "decoder")));
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<AddedToken> added_tokens,
                            ParseAddedTokens(MemberOrNull(root, "added_tokens"), bpe.vocabulary()));
  return TokenizerJson{.normalizer = std::move(normalizer),
                       .pre_tokenizer = std::move(pre_tokenizer),
                       .bpe = std::move(bpe),
                       .added_tokens = std::move(added_tokens),
                       .frame = std::move(frame),
                       .decoder = std::move(decoder)};
}

}  // namespace buttress
