#include "lib/verify/math/words.h"

#include <algorithm>
#include <iterator>

#include "lib/verify/prose/prose_words.h"

namespace buttress {
namespace {

struct Pair {
  std::string_view from;
  std::string_view to;
};

constexpr Pair kUnits[] = {
    {"mm", "mm"},           {"millimeter", "mm"},
    {"cm", "cm"},           {"centimeter", "cm"},
    {"centimetre", "cm"},   {"m", "m"},
    {"meter", "m"},         {"metre", "m"},
    {"km", "km"},           {"kilometer", "km"},
    {"in", "inch"},         {"inch", "inch"},
    {"inches", "inch"},     {"ft", "foot"},
    {"foot", "foot"},       {"feet", "foot"},
    {"yd", "yard"},         {"yard", "yard"},
    {"mile", "mile"},       {"mi", "mile"},
    {"mph", "mile/hour"},   {"g", "gram"},
    {"gm", "gram"},         {"gram", "gram"},
    {"kg", "kg"},           {"kilogram", "kg"},
    {"mg", "mg"},           {"lb", "pound"},
    {"lbs", "pound"},       {"pound", "pound"},
    {"oz", "ounce"},        {"ounce", "ounce"},
    {"ton", "ton"},         {"s", "second"},
    {"sec", "second"},      {"second", "second"},
    {"min", "minute"},      {"minute", "minute"},
    {"h", "hour"},          {"hr", "hour"},
    {"hour", "hour"},       {"day", "day"},
    {"week", "week"},       {"month", "month"},
    {"year", "year"},       {"yr", "year"},
    {"am", "am"},           {"pm", "pm"},
    {"dollar", "dollar"},   {"usd", "dollar"},
    {"cent", "cent"},       {"euro", "euro"},
    {"rupee", "rupee"},     {"liter", "liter"},
    {"litre", "liter"},     {"ml", "ml"},
    {"gallon", "gallon"},   {"acre", "acre"},
    {"degree", "degree"},   {"deg", "degree"},
    {"radian", "radian"},   {"rad", "radian"},
    {"percent", "percent"}, {"unit", "unit"},
    {"l", "liter"},         {"eur", "euro"},
    {"gbp", "pound"},       {"rs", "rupee"},
    {"inr", "rupee"},       {"yen", "yen"},
    {"jpy", "yen"},         {"yuan", "yuan"},
    {"celsius", "celsius"}, {"fahrenheit", "fahrenheit"},
    {"kph", "km/hour"},     {"kmh", "km/hour"},
    {"newton", "newton"},   {"joule", "joule"},
    {"watt", "watt"},       {"volt", "volt"},
};

constexpr std::pair<std::string_view, UnitSize> kSizes[] = {
    {"second", {"time", 1}},    {"minute", {"time", 60}},    {"hour", {"time", 3600}},
    {"day", {"time", 86400}},   {"week", {"time", 604800}},  {"cent", {"money", 1}},
    {"dollar", {"money", 100}}, {"mm", {"length", 1}},       {"cm", {"length", 10}},
    {"m", {"length", 1000}},    {"km", {"length", 1000000}}, {"inch", {"inches", 1}},
    {"foot", {"inches", 12}},   {"yard", {"inches", 36}},    {"mile", {"inches", 63360}},
    {"mg", {"mass", 1}},        {"gram", {"mass", 1000}},    {"kg", {"mass", 1000000}},
    {"ml", {"volume", 1}},      {"liter", {"volume", 1000}}};

constexpr std::string_view kMonths[] = {"january",   "february", "march",    "april",
                                        "may",       "june",     "july",     "august",
                                        "september", "october",  "november", "december"};

constexpr std::string_view kCurrencies[] = {"dollar", "cent", "euro", "pound",
                                            "rupee",  "yen",  "yuan"};

struct Multiplier {
  std::string_view word;
  long numerator;
  long denominator;
};

constexpr Multiplier kMultipliers[] = {{"dozen", 12, 1},
                                       {"hundred", 100, 1},
                                       {"thousand", 1000, 1},
                                       {"million", 1000000, 1},
                                       {"billion", 1000000000, 1},
                                       {"trillion", 1000000000000, 1},
                                       {"half", 1, 2},
                                       {"halves", 1, 2},
                                       {"third", 1, 3},
                                       {"thirds", 1, 3},
                                       {"quarter", 1, 4},
                                       {"quarters", 1, 4},
                                       {"fourth", 1, 4},
                                       {"fourths", 1, 4},
                                       {"fifth", 1, 5},
                                       {"fifths", 1, 5},
                                       {"sixth", 1, 6},
                                       {"sixths", 1, 6},
                                       {"seventh", 1, 7},
                                       {"sevenths", 1, 7},
                                       {"eighth", 1, 8},
                                       {"eighths", 1, 8},
                                       {"ninth", 1, 9},
                                       {"ninths", 1, 9},
                                       {"tenth", 1, 10},
                                       {"tenths", 1, 10}};

// Words that modify their neighbours. An answer with such a word in a place that no rule reads is a
// text.
constexpr std::string_view kOperatorWords[] = {
    "squared", "cubed", "over",    "divided", "factorial", "less",     "more",       "greater",
    "fewer",   "least", "most",    "than",    "mod",       "modulo",   "below",      "above",
    "between", "base",  "log",     "times",   "to",        "through",  "until",      "up",
    "under",   "about", "almost",  "choose",  "root",      "infinite", "infinitely", "remainder",
    "non",     "ish",   "upwards", "onwards", "by"};

constexpr std::string_view kNumberWords[] = {
    "zero",     "one",     "two",     "three",     "four",     "five",    "six",
    "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};

constexpr std::string_view kTens[] = {"twenty", "thirty",  "forty",  "fifty",
                                      "sixty",  "seventy", "eighty", "ninety"};

constexpr std::string_view kFunctionNames[] = {
    "sin",  "cos",  "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh",
    "cosh", "tanh", "ln",  "log", "lg",  "exp", "abs",    "floor",  "ceil",   "sqrt"};

constexpr std::string_view kGreek[] = {
    "alpha", "beta",    "gamma",  "delta",  "epsilon", "varepsilon", "zeta",  "eta",   "theta",
    "iota",  "kappa",   "lambda", "mu",     "nu",      "xi",         "pi",    "rho",   "sigma",
    "tau",   "upsilon", "phi",    "varphi", "chi",     "psi",        "omega", "Gamma", "Delta",
    "Theta", "Lambda",  "Xi",     "Pi",     "Sigma",   "Phi",        "Psi",   "Omega", "ell"};

constexpr Pair kCommands[] = {{"cdot", "*"},       {"times", "*"},
                              {"ast", "*"},        {"div", "/"},
                              {"pm", "±"},         {"mp", "∓"},
                              {"le", "≤"},         {"leq", "≤"},
                              {"leqslant", "≤"},   {"ge", "≥"},
                              {"geq", "≥"},        {"geqslant", "≥"},
                              {"lt", "<"},         {"gt", ">"},
                              {"ne", "≠"},         {"neq", "≠"},
                              {"approx", "≈"},     {"in", "∈"},
                              {"equiv", "≡"},      {"cup", "∪"},
                              {"infty", "∞"},      {"cap", "∩"},
                              {"setminus", "∖"},   {"backslash", "∖"},
                              {"over", "over"},    {"Reals", "\\mathbb{R}"},
                              {"lbrace", "\\{"},   {"rbrace", "\\}"},
                              {"vert", "|"},       {"lvert", "|"},
                              {"rvert", "|"},      {"mid", "|"},
                              {"langle", "("},     {"rangle", ")"},
                              {"lfloor", "⌊"},     {"rfloor", "⌋"},
                              {"lceil", "⌈"},      {"rceil", "⌉"},
                              {"circ", "°"},       {"degree", "°"},
                              {"colon", ":"},      {"emptyset", "∅"},
                              {"varnothing", "∅"}, {"land", ","},
                              {"lor", ","},        {"wedge", ","},
                              {"vee", ","},        {"left", ""},
                              {"right", ""},       {"big", ""},
                              {"Big", ""},         {"bigl", ""},
                              {"bigr", ""},        {"Bigl", ""},
                              {"Bigr", ""},        {"displaystyle", ""},
                              {"textstyle", ""},   {"limits", ""},
                              {"quad", " "},       {"qquad", " "},
                              {"dots", "…"},       {"ldots", "…"},
                              {"cdots", "…"},      {",", ""},
                              {";", ""},           {":", ""},
                              {"!", ""},           {">", ""},
                              {" ", " "},          {"\n", " "},
                              {"%", "%"},          {"&", ","},
                              {"#", ""},           {"_", "_"},
                              {"|", "|"},          {"(", " "},
                              {")", " "},          {"[", " "},
                              {"]", " "},          {"$", "\\$"}};

constexpr Pair kCharacters[] = {{"−", "-"},
                                {"–", "-"},
                                {"×", "*"},
                                {"·", "*"},
                                {"⋅", "*"},
                                {"÷", "/"},
                                {"√", "\\sqrt "},
                                {"π", "\\pi "},
                                {"θ", "\\theta "},
                                {"∛", "\\sqrt[3]"},
                                {"⁄", "/"},
                                {"½", "\\frac12"},
                                {"⅓", "\\frac13"},
                                {"⅔", "\\frac23"},
                                {"¼", "\\frac14"},
                                {"¾", "\\frac34"},
                                {"⅕", "\\frac15"},
                                {"⅖", "\\frac25"},
                                {"⅗", "\\frac35"},
                                {"⅘", "\\frac45"},
                                {"⅙", "\\frac16"},
                                {"⅚", "\\frac56"},
                                {"⅛", "\\frac18"},
                                {"⅜", "\\frac38"},
                                {"⅝", "\\frac58"},
                                {"⅞", "\\frac78"},
                                {"ℝ", "\\mathbb{R}"},
                                {"℃", "°\\text{C}"},
                                {"℉", "°\\text{F}"},
                                {"∣", "|"},
                                {"⟨", "("},
                                {"⟩", ")"},
                                {"\u00a0", " "},
                                {"\u202f", " "},
                                {"\u2009", " "},
                                {"。", "."},
                                {"、", ","},
                                {"€", "\\text{euros}"},
                                {"£", "\\text{pounds}"},
                                {"¥", "\\text{yen}"},
                                {"’", "'"}};

template <class Table>
std::optional<std::string_view> Find(const Table& table, std::string_view from) {
  for (const Pair& pair : table) {
    if (pair.from == from) return pair.to;
  }
  return std::nullopt;
}

template <class Table>
bool Holds(const Table& table, std::string_view name) {
  return std::find(std::begin(table), std::end(table), name) != std::end(table);
}

}  // namespace

std::optional<std::string_view> CanonicalUnit(std::string_view word) {
  if (const auto unit = Find(kUnits, word)) return unit;
  if (word.size() > 2 && word.ends_with('s')) return Find(kUnits, word.substr(0, word.size() - 1));
  return std::nullopt;
}

std::optional<UnitSize> SizeOf(std::string_view canonical_unit) {
  for (const auto& [unit, size] : kSizes) {
    if (unit == canonical_unit) return size;
  }
  return std::nullopt;
}

bool IsMonth(std::string_view word) { return Holds(kMonths, word); }

bool IsCurrency(std::string_view canonical_unit) { return Holds(kCurrencies, canonical_unit); }

std::optional<int> NumberWord(std::string_view word) {
  if (const auto* at = std::find(std::begin(kNumberWords), std::end(kNumberWords), word);
      at != std::end(kNumberWords))
    return static_cast<int>(at - std::begin(kNumberWords));
  const auto* at = std::find(std::begin(kTens), std::end(kTens), word);
  if (at == std::end(kTens)) return std::nullopt;
  return 10 * static_cast<int>(at - std::begin(kTens) + 2);
}

std::optional<Rational> MultiplierWord(std::string_view word) {
  for (const Multiplier& multiplier : kMultipliers) {
    if (multiplier.word == word) return Rational(multiplier.numerator, multiplier.denominator);
  }
  return std::nullopt;
}

bool IsOperatorWord(std::string_view word) {
  return Holds(kOperatorWords, word) || (ProseClasses(word) & (kHedgeWord | kDenialWord)) != 0;
}

std::optional<char> RaisedOrLowered(std::string_view utf8, bool& raised) {
  constexpr std::string_view kRaised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶",
                                          "⁷", "⁸", "⁹", "⁻", "⁺", "ⁿ"};
  constexpr std::string_view kLowered[] = {"₀", "₁", "₂", "₃", "₄", "₅", "₆", "₇", "₈", "₉"};
  constexpr std::string_view kPlain = "0123456789-+n";
  const auto* up = std::find(std::begin(kRaised), std::end(kRaised), utf8);
  const auto* down = std::find(std::begin(kLowered), std::end(kLowered), utf8);
  raised = up != std::end(kRaised);
  if (raised) return kPlain[static_cast<std::size_t>(up - std::begin(kRaised))];
  if (down == std::end(kLowered)) return std::nullopt;
  return kPlain[static_cast<std::size_t>(down - std::begin(kLowered))];
}

bool IsFunctionName(std::string_view name) { return Holds(kFunctionNames, name); }

std::optional<std::string_view> PlainCommand(std::string_view name) {
  return Find(kCommands, name);
}

std::optional<std::string_view> PlainCharacter(std::string_view utf8) {
  return Find(kCharacters, utf8);
}

bool IsGreek(std::string_view name) { return Holds(kGreek, name); }

}  // namespace buttress
