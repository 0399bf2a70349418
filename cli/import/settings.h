// Turns the settings of another trainer into ours, by a table with a row for each setting.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

// What becomes of a setting: each of `ours` (keys with blanks between) gets its value, translated
// by `choices` ("vanilla=ppo gspo=gspo") where these are not empty. A value without a choice, or a
// row without `ours`, is not carried, for the reason `remark`. A remark on a carried value says how
// it differs.
struct ImportRow {
  std::string_view theirs;
  std::string_view ours = "";
  std::string_view remark = "";
  std::string_view choices = "";
  std::string_view by_default = "";  // the trainer's, used where a file does not have the setting
};

// Settings by dotted key. A list keeps its YAML text.
using FlatSettings = std::map<std::string, std::string>;

struct Imported {
  FlatSettings ours;
  std::vector<std::string> notes;  // what was not carried, or not exactly, a line each
};

// A trainer whose settings are known.
struct ImportSource {
  std::string_view name;
  std::span<const ImportRow> rows;
  // Settings that follow from several of theirs; `theirs` has the defaults of the rows.
  void (*combine)(const FlatSettings& theirs, Imported& result);
};

// Sets run.checkpoints.keep_last to `kept`, at least 1, or to the fewest that are kept here.
void KeepCheckpoints(std::string_view theirs, long kept, Imported& result);

const ImportSource& VerlSettings();
const ImportSource& TrlSettings();

// Reads YAML or JSON and applies `overrides` ("a.b=1", also with Hydra's plus signs). Resolves
// ${a.b} where a.b is in the file. kInvalidArgument for text that is no mapping, and an override
// without an equals sign.
Result<FlatSettings> ReadForeignSettings(const std::string& text,
                                         const std::vector<std::string>& overrides);

// Never fails: every setting of `theirs` is carried or stands in a note.
Imported Import(const ImportSource& source, const FlatSettings& theirs);

// YAML of LoadRunConfig.
std::string PrintImported(const FlatSettings& ours);

}  // namespace buttress
