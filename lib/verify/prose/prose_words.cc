#include "lib/verify/prose/prose_words.h"

#include <algorithm>
#include <unordered_map>

namespace buttress {
namespace {

struct WordList {
  unsigned classes;
  std::string_view words;
};

constexpr WordList kLists[] = {
    {kVerbWord | kCopulaWord, "is are was were"},
    {kVerbWord,
     "be been being equal equals equaled equaling give gives gave giving get gets got getting "
     "yield yields yielded yielding make makes made making leave leaves left leaving have has "
     "had having obtain obtains obtained find finds found reach reaches reached total totals "
     "totaled totaling become becomes became need needs needed require requires required take "
     "takes took taken cost costs costing earn earns earned earning pay pays paid paying spend "
     "spends spent save saves saved sell sells sold buy buys bought eat eats ate use uses used "
     "receive receives received keep keeps kept produce produces produced collect collects "
     "collected contain contains contained hold holds held weigh weighs weighed measure measures "
     "measured last lasts lasted run runs ran walk walks walked drive drives drove travel "
     "travels traveled read reads lose loses lost win wins won score scores scored drink drinks "
     "drank work works worked bring brings brought owe owes owed donate donates donated plant "
     "plants planted bake bakes baked charge charges charged raise raises raised return returns "
     "returned carry carries carried see sees saw deliver delivers delivered include includes "
     "included remain remains remained show shows mean means meant conclude concludes fit fits "
     "order orders ordered catch catches caught pick picks picked fill fills filled grow grows "
     "grew rent rents cover covers covered climb climbs climbed complete completes completed "
     "finish finishes finished write writes wrote watch watches watched play plays played study "
     "studies studied purchase purchases purchased lay lays laid serve serves served share "
     "shares shared build builds built send sends sent invite invites invited do does did "
     "compute computes computed calculate calculates calculated output outputs print prints "
     "choose chooses chose choosing chosen select selects selected selecting go goes went going "
     "deduce derive derives end ends ended wind winds own owns owned"},
    {kMeasureWord,
     "answer answers result results total totals sum sums value values number numbers integer "
     "amount product difference quotient ratio fraction probability percentage average mean "
     "median area volume perimeter length width height distance speed price cost profit age time "
     "score solution root prime point pair interval set matrix vector polynomial expression "
     "coefficient remainder digit angle count conclusion choice grand gcd lcm weight balance "
     "option letter alternative"},
    {kPassiveWord,
     "a an the exactly precisely just simply only therefore thus hence then now also indeed "
     "clearly obviously certainly definitely surely undoubtedly really finally always altogether "
     "overall again still both equally actually my our your his her their its final correct "
     "whole exact integer overall combined simplified required desired currently"},
    {kSoWord, "so thus hence therefore then which namely finally ergo consequently i.e ie again"},
    {kQuantityWord,
     "radius diameter circumference slope population date deadline code intercept center "
     "midpoint intersection domain vertex coordinates asymptote point points integers "
     "possibility possibilities ways function equation line side sides base hypotenuse edge "
     "depth thickness temperature rate income salary revenue balance bill fee fare tax tip "
     "discount change savings share chance odds degree period term terms power exponent divisor "
     "multiple factor factors range mode variance deviation determinant norm magnitude argument "
     "conjugate inverse reciprocal square cube root roots zero zeros logarithm sine cosine "
     "tangent digit digits ones capacity mass size tally quantity money distance duration days "
     "hours minutes seconds weeks months years inches feet meters miles people cost costs prices "
     "ages amounts quotients ratios fractions percent proportion portion"},
    {kAnswerWord, "answer ans result final solution conclusion conclude"},
    {kConclusionWord,
     "so thus hence therefore finally ergo consequently altogether overall all answer ans result "
     "tally total final solution conclusion conclude left remaining remain"},
    {kToWord,
     "equal equals equaled equivalent simplify simplifies simplified reduce reduces reduced come "
     "comes came amount amounts amounted evaluate evaluates evaluated lead leads correspond "
     "corresponds sum sums add adds added work works identical according rise rises drop drops "
     "falls fell fall decreases increases converge converges tends round rounds rounded rounding"},
    {kPersonWord, "him her them us me you it himself herself themselves everyone everybody"},
    {kDenialWord,
     "not no never neither nor none nobody nothing cannot hardly scarcely barely without except "
     "unlike false wrong incorrect impossible unequal untrue fail fails failed deny denies "
     "refute refutes disagree disagrees mistake anything unable exclude excludes excluded reject "
     "rejects rejected contradict contradicts contradicting contradiction disprove disproves "
     "disproved mistaken doubt doubts doubtful excluding far rather"},
    {kHedgeWord,
     "maybe perhaps possibly probably presumably conceivably likely guess guessing guesstimate "
     "unsure uncertain unclear unknown suspect suspects seems seem seemingly appears appear "
     "apparently supposedly allegedly either somewhere uncertainly ballpark dunno unlikely "
     "tentatively hunch speculate alternatively potentially hopefully arguably plausibly tempted "
     "tempting opinion"},
    {kModalWord, "might may could can"},
    {kConditionWord,
     "try if unless whether assuming provided suppose supposing assume example instance"},
    {kNearWord,
     "about around roughly approximately approx nearly almost circa near ca estimated some "
     "practically virtually loosely"},
    {kComparisonWord,
     "more less fewer greater larger higher lower bigger smaller older younger taller shorter "
     "longer faster slower heavier lighter later earlier"},
    {kOperationWord,
     "plus minus divided multiplied squared cubed factorial modulo mod through until maximum max "
     "minimum min ish tops upwards onwards short"},
    {kContrastWord, "not rather instead but unlike never"},
    {kPhraseWord,
     "because since as so which where when while after before for by from in on at per each "
     "every with that who whose such due given during within into thus hence therefore using"},
};

using Classes = std::unordered_map<std::string_view, unsigned>;

const Classes& AllClasses() {
  static const Classes* const classes = [] {
    auto* made = new Classes;
    for (const WordList& list : kLists) {
      for (std::string_view rest = list.words; !rest.empty();) {
        const std::size_t end = std::min(rest.find(' '), rest.size());
        (*made)[rest.substr(0, end)] |= list.classes;
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    }
    return made;
  }();
  return *classes;
}

}  // namespace

unsigned ProseClasses(std::string_view word) {
  if (word.ends_with("n't")) return kDenialWord;
  const auto at = AllClasses().find(word);
  return at == AllClasses().end() ? 0 : at->second;
}

}  // namespace buttress
