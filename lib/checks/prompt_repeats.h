// Warnings of datasets whose rows can be used, but whose prompts are repeated, few, or both trained
// on and held out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/checks/findings.h"

namespace buttress {

struct HashedPrompts {
  std::string key;                    // the setting of the dataset: "run.data.prompts"
  std::vector<std::uint64_t> hashes;  // of every prompt, sorted; empty: nothing is checked
};

// Warns if a tenth of the prompts or more repeat another, and if they are few.
void CheckTrained(const HashedPrompts& trained, Findings& findings);

// Also warns of prompts that are in one of the datasets `trained`.
void CheckHeldOut(const HashedPrompts& held_out, const std::vector<HashedPrompts>& trained,
                  Findings& findings);

}  // namespace buttress
