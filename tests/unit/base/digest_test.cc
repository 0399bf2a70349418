#include "lib/base/text/digest.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

// FIPS 180-2, appendix B.1.
TEST(DigestTest, Sha256OfAbcIsTheStandardsVector) {
  EXPECT_EQ(ToHex(Sha256Of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(DigestTest, PiecesGiveTheDigestOfTheWhole) {
  Sha256 sha;
  sha.Update("a");
  sha.Update("");
  sha.Update("bc");
  EXPECT_EQ(sha.Finish(), Sha256Of("abc"));
}

}  // namespace
}  // namespace buttress
