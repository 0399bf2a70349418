#include "lib/verify/math/words.h"

#include <algorithm>
#include <iterator>

namespace buttress {
namespace {

struct Pair {
  std::string_view from;
  std::string_view to;
};

constexpr Pair kUnits[] = {
    {"mm", "mm"},         {"millimeter", "mm"}, {"cm", "cm"},           {"centimeter", "cm"},
    {"centimetre", "cm"}, {"m", "m"},           {"meter", "m"},         {"metre", "m"},
    {"km", "km"},         {"kilometer", "km"},  {"in", "inch"},         {"inch", "inch"},
    {"inches", "inch"},   {"ft", "foot"},       {"foot", "foot"},       {"feet", "foot"},
    {"yd", "yard"},       {"yard", "yard"},     {"mile", "mile"},       {"mi", "mile"},
    {"mph", "mph"},       {"g", "gram"},        {"gm", "gram"},         {"gram", "gram"},
    {"kg", "kg"},         {"kilogram", "kg"},   {"mg", "mg"},           {"lb", "pound"},
    {"lbs", "pound"},     {"pound", "pound"},   {"oz", "ounce"},        {"ounce", "ounce"},
    {"ton", "ton"},       {"s", "second"},      {"sec", "second"},      {"second", "second"},
    {"min", "minute"},    {"minute", "minute"}, {"h", "hour"},          {"hr", "hour"},
    {"hour", "hour"},     {"day", "day"},       {"week", "week"},       {"month", "month"},
    {"year", "year"},     {"yr", "year"},       {"am", "am"},           {"pm", "pm"},
    {"dollar", "dollar"}, {"usd", "dollar"},    {"cent", "cent"},       {"euro", "euro"},
    {"rupee", "rupee"},   {"liter", "liter"},   {"litre", "liter"},     {"ml", "ml"},
    {"gallon", "gallon"}, {"acre", "acre"},     {"degree", "degree"},   {"deg", "degree"},
    {"radian", "radian"}, {"rad", "radian"},    {"percent", "percent"}, {"unit", "unit"},
};

constexpr std::string_view kNumberWords[] = {"zero",
                                             "one",
                                             "two",
                                             "three",
                                             "four",
                                             "five",
                                             "six",
                                             "seven",
                                             "eight",
                                             "nine",
                                             "ten",
                                             "eleven",
                                             "twelve"};

constexpr std::string_view kFunctions[] = {
    "sin",  "cos",  "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh",
    "cosh", "tanh", "ln",  "log", "lg",  "exp", "abs",    "floor",  "ceil",   "sqrt"};

constexpr std::string_view kGreek[] = {
    "alpha", "beta",    "gamma",  "delta",  "epsilon", "varepsilon", "zeta",  "eta",   "theta",
    "iota",  "kappa",   "lambda", "mu",     "nu",      "xi",         "pi",    "rho",   "sigma",
    "tau",   "upsilon", "phi",    "varphi", "chi",     "psi",        "omega", "Gamma", "Delta",
    "Theta", "Lambda",  "Xi",     "Pi",     "Sigma",   "Phi",        "Psi",   "Omega", "ell"};

constexpr Pair kCommands[] = {{"cdot", "*"},     {"times", "*"},      {"ast", "*"},
                              {"div", "/"},      {"pm", "±"},         {"mp", "∓"},
                              {"le", "≤"},       {"leq", "≤"},        {"leqslant", "≤"},
                              {"ge", "≥"},       {"geq", "≥"},        {"geqslant", "≥"},
                              {"lt", "<"},       {"gt", ">"},         {"ne", "≠"},
                              {"neq", "≠"},      {"approx", "≈"},     {"in", "∈"},
                              {"equiv", "≡"},    {"cup", "∪"},        {"infty", "∞"},
                              {"lbrace", "\\{"}, {"rbrace", "\\}"},   {"vert", "|"},
                              {"lvert", "|"},    {"rvert", "|"},      {"mid", "|"},
                              {"langle", "("},   {"rangle", ")"},     {"lfloor", "⌊"},
                              {"rfloor", "⌋"},   {"lceil", "⌈"},      {"rceil", "⌉"},
                              {"circ", "°"},     {"degree", "°"},     {"colon", ":"},
                              {"emptyset", "∅"}, {"varnothing", "∅"}, {"land", ","},
                              {"lor", ","},      {"wedge", ","},      {"vee", ","},
                              {"left", ""},      {"right", ""},       {"big", ""},
                              {"Big", ""},       {"bigl", ""},        {"bigr", ""},
                              {"Bigl", ""},      {"Bigr", ""},        {"displaystyle", ""},
                              {"textstyle", ""}, {"limits", ""},      {"quad", " "},
                              {"qquad", " "},    {"dots", "…"},       {"ldots", "…"},
                              {"cdots", "…"},    {",", ""},           {";", ""},
                              {":", ""},         {"!", ""},           {">", ""},
                              {" ", " "},        {"\n", " "},         {"%", "%"},
                              {"&", ","},        {"#", ""},           {"_", "_"},
                              {"|", "|"},        {"(", " "},          {")", " "},
                              {"[", " "},        {"]", " "},          {"$", "\\$"}};

constexpr Pair kCharacters[] = {{"−", "-"},
                                {"–", "-"},
                                {"×", "*"},
                                {"·", "*"},
                                {"⋅", "*"},
                                {"÷", "/"},
                                {"√", "\\sqrt "},
                                {"π", "\\pi "},
                                {"θ", "\\theta "},
                                {"²", "^2"},
                                {"³", "^3"},
                                {"½", "\\frac12"},
                                {"¼", "\\frac14"},
                                {"¾", "\\frac34"},
                                {"\u00a0", " "},
                                {"\u202f", " "},
                                {"\u2009", " "},
                                {"，", ","},
                                {"。", "."},
                                {"（", "("},
                                {"）", ")"},
                                {"€", "\\text{euros}"},
                                {"£", "\\text{pounds}"},
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

std::optional<int> NumberWord(std::string_view word) {
  const auto* at = std::find(std::begin(kNumberWords), std::end(kNumberWords), word);
  if (at == std::end(kNumberWords)) return std::nullopt;
  return static_cast<int>(at - std::begin(kNumberWords));
}

bool IsFunctionName(std::string_view name) { return Holds(kFunctions, name); }

std::optional<std::string_view> PlainCommand(std::string_view name) {
  return Find(kCommands, name);
}

std::optional<std::string_view> PlainCharacter(std::string_view utf8) {
  return Find(kCharacters, utf8);
}

bool IsGreek(std::string_view name) { return Holds(kGreek, name); }

}  // namespace buttress
