// Verifier instructions: a response is correct if it follows every instruction of its prompt. The
// instructions are in the answer, else in the dataset's row, in the form of IFEval:
// {"instruction_id_list": [...], "kwargs": [{...}, ...]}.
//
// A program can check these, with the names and meanings of IFEval (arXiv 2311.07911,
// instructions_registry.py).
//
//   keywords:existence                           {keywords}
//   keywords:frequency                           {keyword, frequency, relation}
//   keywords:forbidden_words                     {forbidden_words}
//   keywords:letter_frequency                    {letter, let_frequency, let_relation}
//   length_constraints:number_sentences          {num_sentences, relation}
//   length_constraints:number_paragraphs         {num_paragraphs}
//   length_constraints:number_words              {num_words, relation}
//   length_constraints:nth_paragraph_first_word  {num_paragraphs, nth_paragraph, first_word}
//   detectable_content:number_placeholders       {num_placeholders}
//   detectable_content:postscript                {postscript_marker}
//   detectable_format:constrained_response
//   detectable_format:number_bullet_lists        {num_bullets}
//   detectable_format:number_highlighted_sections  {num_highlights}
//   detectable_format:multiple_sections          {section_spliter, num_sections}
//   detectable_format:json_format
//   detectable_format:title
//   combination:two_responses
//   combination:repeat_prompt                    {prompt_to_repeat}
//   startend:end_checker                         {end_phrase}
//   startend:quotation
//   punctuation:no_comma
//   change_case:english_capital
//   change_case:english_lowercase
//   change_case:capital_word_frequency           {capital_frequency, capital_relation}
//
// A relation is "at least" or "less than". Differences from IFEval: keywords are texts instead of
// regular expressions; a sentence ends in . ! or ? before white space or the end, where IFEval uses
// a trained splitter; change_case considers letters only and does not detect the language;
// language:response_language, which detects it, is refused.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {

// Returns whether `response` follows instruction `id` with the arguments `kwargs` (an object), or
// kInvalidArgument for an unknown instruction or argument. Linear in the response.
Result<bool> FollowsInstruction(const std::string& id, const nlohmann::json& kwargs,
                                std::string_view response);

}  // namespace buttress
