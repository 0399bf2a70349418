// What others may do with the files of a run.
#pragma once

namespace buttress {

// Files and folders made after this call are not writable by group and others, whatever umask this
// process was started with. Stricter bits of that umask stay. Call it before threads start.
void TightenUmask();

}  // namespace buttress
