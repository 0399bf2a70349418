// Chains of equations outside of a box, of which the last member may be the answer: 997 of
// a + b = r/2 = 997.
#pragma once

#include <string_view>

#include "lib/verify/math/equal.h"
#include "lib/verify/math/syntax/node.h"

namespace buttress {

// The place of a chain: what surrounds it says how its members are read.
struct ChainText {
  std::string_view anchor;  // that found it
  std::string_view source;  // verbatim
  std::string_view prompt;  // which may define an operation: a * b = a^b + b^a
};

// Returns 997 of a + b = r/2 = 997, t^7 of t^3 t^4 = t^7, 2x of p(x) = 2x and 3 of 2^5 ≡ 3: a
// sentence may name what it computes. Null if `node` is no chain or stands in a box, if one member
// is another number than the last, for an equation whose end is no identity, as y = 2x + 1 is not,
// and for x + 5 = 12 alone. A member with a * that the prompt defines is not computed.
const MathNode* LastMember(const MathNode& node, const ChainText& text, MathComparison& how);

// Returns whether the node is a chain of equations with a member that is another number than the
// last: x = 5 = 6.
bool Contradicts(const MathNode& node, MathComparison& how);

}  // namespace buttress
