// What the text behind a stated value makes of it.
#pragma once

#include <string_view>

#include "lib/verify/prose/clause.h"

namespace buttress {

enum class Sequel {
  kKeeps,     // nothing follows, or what does leaves the value as it is: "This matches."
  kRetracts,  // it turns against the value: "Wait, that is wrong.", "But is it?"
  kGoesOn,    // the value was a step: "Next, we subtract."
};

// Reads the sentences behind the one of `span`, which lies in `text`, up to the next problem
// ("Question:"), at most 2 KiB. These turn against the value:
//
//   a word of turning at the begin     "wait", "no", "but", "actually", "let me redo this"
//   a question, except to the reader   "How many are left?"
//   a denial or doubt of "that", "it"  "This is impossible."
//   what the writer did wrong or must  "I forgot the tax.", "We still have to subtract."
//
// A value that its sentence calls the answer, or that is all of its sentence, is kept by all else;
// one that its sentence concludes ("so", "in total"), by what names no other value; and any other
// value only by what explains or repeats it.
Sequel ReadSequel(std::string_view text, std::string_view span);

// Whether a clause turns against the value before it: "no, hold on", "which makes no sense".
bool TurnsAgainst(ProseSpan clause);

// Whether the text, which begins with a sentence, turns against what stands before it.
bool Retracts(std::string_view text);

}  // namespace buttress
