// A file layer of SQLite whose writes are lost when the process dies before it syncs them, as in a
// power failure. Failpoints: sqlite_write, sqlite_truncate, sqlite_sync and sqlite_synced.
#pragma once

namespace buttress {

// Every database that this process opens from now on uses it. Its files belong to one connection.
void UseVolatileFiles();

}  // namespace buttress
