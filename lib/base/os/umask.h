// The permissions of the files of a run.
#pragma once

namespace buttress {

// Files and folders made after this call are the owner's, the group may read them, and others may
// nothing (0640 and 0750), whatever umask this process was started with. Stricter bits of that
// umask stay. Call it before threads start.
void TightenUmask();

}  // namespace buttress
