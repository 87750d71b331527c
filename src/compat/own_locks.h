// The advisory locks that jobq takes for itself. The fourth field of their tags, objsubid in pg_locks, is none of those
// of SQL's, 1 and 2. The same in all versions that may run in one server.
#pragma once

#include "compat/pg.h"

namespace jobq {

enum class OwnLock : uint16 { Restore = 3, Slot = 0x6a71, Trial = 0x6a72, DeadLetters = 0x6a73, ScheduleSets = 0x6a74 };

// In this session's database.
inline LOCKTAG own_lock(OwnLock which, int64 number) {
    LOCKTAG tag;
    SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, static_cast<uint32>(static_cast<uint64>(number) >> 32),
                         static_cast<uint32>(number), static_cast<uint16>(which));
    return tag;
}

}  // namespace jobq
