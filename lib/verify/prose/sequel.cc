#include "lib/verify/prose/sequel.h"

#include <algorithm>
#include <string>

#include "lib/verify/prose/clause.h"
#include "lib/verify/prose/prose.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxBytes = 2048;

enum class Declared { kNo, kConclusion, kAnswer };  // nothing, "so", "the answer"

bool IsWordToken(const ProseToken& token) { return token.kind == ProseToken::Kind::kWord; }

// Leaves out signs and "oh", "okay, so" at the begin of a sentence.
ProseSpan Begin(ProseSpan tokens) {
  while (!tokens.empty() && (tokens[0].kind == ProseToken::Kind::kSign ||
                             OneOf(tokens[0], {"oh", "ah", "uh", "well", "and", "ok", "okay"})))
    tokens = tokens.subspan(1);
  return tokens;
}

bool DeniesOrDoubts(ProseSpan tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (Denies(tokens, i) || Has(tokens[i], kHedgeWord) || IsWord(tokens[i], "too")) return true;
  }
  return false;
}

// "Question: ...", "Problem 2: ...", "### Instruction: ..."
bool BeginsProblem(ProseSpan tokens) {
  tokens = Begin(tokens);
  if (tokens.size() < 2 ||
      !OneOf(tokens[0], {"question", "problem", "q", "exercise", "instruction", "user", "human"}))
    return false;
  return IsSign(tokens[1], ":") || IsValue(tokens[1]);
}

// Refers to what stands before: "that", "it".
bool IsAnaphor(const ProseToken& token) {
  return OneOf(token, {"that", "this", "it", "which", "these", "those"});
}

// "Wait", "No, ..."
bool IsInterjection(ProseSpan tokens) {
  if (tokens.empty()) return false;
  if (!IsWord(tokens[0], "no"))
    return OneOf(tokens[0], {"wait", "nope", "hmm", "oops", "sorry", "actually", "correction",
                             "scratch", "hold"});
  return tokens.size() == 1 || IsSign(tokens[1], ",") || IsAnaphor(tokens[1]) ||
         IsInterjection(tokens.subspan(1));
}

// "But", "Hold on", "Let me redo this"
bool Turns(ProseSpan tokens) {
  if (tokens.empty()) return false;
  if (IsInterjection(tokens) ||
      OneOf(tokens[0], {"but", "however", "yet", "not", "unless", "except", "or", "otherwise"}))
    return true;
  if (tokens.size() == 1) return false;
  if (!OneOf(tokens[0], {"let", "let's"})) return false;
  const ProseToken& verb = tokens[IsWord(tokens[0], "let") && tokens.size() > 2 ? 2 : 1];
  return !OneOf(verb, {"know", "verify", "check", "double-check", "double", "confirm"});
}

// "I forgot the tax", "we still have to subtract": not "I hope it is correct", "we have 5 of them".
bool Corrects(ProseSpan tokens) {
  if (tokens.size() < 2 || !OneOf(tokens[0], {"i", "we"})) return false;
  const ProseToken& verb = tokens[1];
  return OneOf(verb, {"need", "must", "should", "still", "now", "forgot", "made", "meant", "think",
                      "guess", "believe"}) ||
         verb.text.starts_with("mis") ||
         (IsWord(verb, "have") && tokens.size() > 2 && IsWord(tokens[2], "to"));
}

// "Note that", "Checking, we find"
bool Explains(const ProseToken& first) {
  return OneOf(first, {"note", "notice", "check", "checking", "explanation", "verification",
                       "because", "since", "indeed", "here"});
}

// `number`: the value, which a sentence that repeats it keeps.
Sequel ReadOne(ProseSpan tokens, bool asks, Declared declared, std::string_view number) {
  tokens = Begin(tokens);
  if (tokens.empty()) return Sequel::kKeeps;
  const bool to_reader = std::ranges::any_of(tokens, [](const ProseToken& token) {
    return OneOf(token, {"you", "your", "else"});
  });
  if (asks) return to_reader ? Sequel::kKeeps : Sequel::kRetracts;
  ProseSpan said = tokens;  // "note that this is wrong"
  if (said.size() > 2 && OneOf(said[0], {"note", "notice"}))
    said = said.subspan(IsWord(said[1], "that") ? 2 : 1);
  const bool of_value = IsAnaphor(said[0]) || IsWord(said[0], "i");
  if (Turns(tokens) || Corrects(tokens) || (of_value && DeniesOrDoubts(said)))
    return Sequel::kRetracts;
  if (OneOf(tokens[0], {"next", "now", "step"})) return Sequel::kGoesOn;
  const bool repeats = std::ranges::any_of(tokens, [&](const ProseToken& token) {
    return token.kind == ProseToken::Kind::kNumber && token.text == number;
  });
  if (declared == Declared::kAnswer || of_value || to_reader || repeats || Explains(tokens[0]))
    return Sequel::kKeeps;
  if (declared == Declared::kConclusion)
    return std::ranges::any_of(tokens, IsValue) ? Sequel::kGoesOn : Sequel::kKeeps;
  const auto words = std::ranges::count_if(tokens, IsWordToken);
  return words > 2 ? Sequel::kGoesOn : Sequel::kKeeps;
}

// How the sentence says that its value is the answer.
Declared DeclarationOf(const ProseAround& around) {
  if (around.left.empty()) return around.right.empty() ? Declared::kAnswer : Declared::kNo;
  const auto holds = [&](unsigned classes) {
    const auto is_one = [&](const ProseToken& token) { return Has(token, classes); };
    return std::ranges::any_of(around.left, is_one) || std::ranges::any_of(around.right, is_one);
  };
  if (holds(kAnswerWord)) return Declared::kAnswer;
  return holds(kConclusionWord) ? Declared::kConclusion : Declared::kNo;
}

// "5 apples for 6 dollars each"
bool SharesWithOther(ProseSpan right) {
  for (std::size_t i = 1; i < right.size(); ++i) {
    if (IsValue(right[i]) && OneOf(right[i - 1], {"for", "with", "among", "between"})) return true;
  }
  return false;
}

// Whether the text has computed the number: "= 5".
bool Computed(std::string_view text, std::string_view number) {
  return text.find("=" + std::string(number)) != std::string_view::npos ||
         text.find("= " + std::string(number)) != std::string_view::npos;
}

}  // namespace

Sequel ReadSequel(std::string_view text, std::string_view span) {
  const auto first = static_cast<std::size_t>(span.data() + span.size() - text.data());
  const ProseAround around = SentenceAround(text, span);
  const Declared declared = DeclarationOf(around);
  if (declared == Declared::kNo && SharesWithOther(around.right) && !IsComputed(around.left) &&
      !Computed(text.substr(0, first - span.size()), span))
    return Sequel::kGoesOn;  // it is given, not found
  std::size_t at = SentenceEnd(text, first);
  while (at < text.size() && at - first < kMaxBytes) {
    const std::size_t end = SentenceEnd(text, at);
    const std::vector<ProseToken> tokens = ReadProse(text.substr(at, end - at));
    if (BeginsProblem(tokens)) break;
    const Sequel sequel = ReadOne(tokens, text[end - 1] == '?', declared, span);
    if (sequel != Sequel::kKeeps) return sequel;
    at = end;
  }
  return Sequel::kKeeps;
}

bool TurnsAgainst(ProseSpan clause) {
  clause = Begin(clause);
  return IsInterjection(clause) ||
         (!clause.empty() && IsAnaphor(clause[0]) && DeniesOrDoubts(clause));
}

bool Retracts(std::string_view text) {
  for (std::size_t at = 0; at < text.size() && at < kMaxBytes;) {
    const std::size_t end = SentenceEnd(text, at);
    if (ReadOne(ReadProse(text.substr(at, end - at)), text[end - 1] == '?', Declared::kAnswer,
                {}) == Sequel::kRetracts)
      return true;
    at = end;
  }
  return false;
}

}  // namespace buttress
