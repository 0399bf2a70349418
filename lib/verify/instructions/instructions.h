// Instructions whose following can be checked by a program, named and meant as in IFEval (arXiv
// 2311.07911, instructions_registry.py).
//
//   keywords:existence {keywords}                       length_constraints:number_sentences {num_sentences, relation}
//   keywords:frequency {keyword, frequency, relation}   length_constraints:number_paragraphs {num_paragraphs}
//   keywords:forbidden_words {forbidden_words}          length_constraints:number_words {num_words, relation}
//   keywords:letter_frequency {letter, let_frequency,   length_constraints:nth_paragraph_first_word {num_paragraphs,
//     let_relation}                                       nth_paragraph, first_word}
//   detectable_content:number_placeholders              detectable_content:postscript {postscript_marker}
//     {num_placeholders}                                detectable_format:constrained_response
//   detectable_format:number_bullet_lists {num_bullets} detectable_format:number_highlighted_sections {num_highlights}
//   detectable_format:multiple_sections                 detectable_format:json_format, detectable_format:title
//     {section_spliter, num_sections}                   combination:two_responses, combination:repeat_prompt {prompt_to_repeat}
//   startend:end_checker {end_phrase}, startend:quotation, punctuation:no_comma
//   change_case:english_capital, change_case:english_lowercase, change_case:capital_word_frequency
//   {capital_frequency, capital_relation}
//
// A relation is "at least" or "less than". Other than there: keywords are texts, not regular
// expressions; a sentence ends in . ! or ? before white space or the end (there: a trained
// splitter); change_case looks at letters only and does not guess the language;
// language:response_language, which guesses it, is refused.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace buttress {

// Whether `response` follows instruction `id` with arguments `kwargs` (an object).
// kInvalidArgument: an instruction or an argument that is not known. Linear in the response.
Result<bool> FollowsInstruction(const std::string& id, const nlohmann::json& kwargs,
                                std::string_view response);

}  // namespace buttress
