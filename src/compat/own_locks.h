// Advisory locks that jobq takes for its own purposes. The fourth field of their lock tags (objsubid in pg_locks) is
// never 1 or 2, because the SQL functions for advisory locks use these values. All versions of jobq that can run in the
// same server must use the same value for the same lock.
#pragma once

#include "compat/pg.h"

namespace jobq {

enum class OwnLock : uint16 {
    Restore = 3,
    Slot = 0x6a71,
    Trial = 0x6a72,
    DeadLetters = 0x6a73,
    ScheduleSets = 0x6a74,
    LogLines = 0x6a75,
    AllLogLines = 0x6a76,
    Batch = 0x6a77
};

// Returns the tag of a lock in the database of this session.
inline LOCKTAG own_lock(OwnLock which, int64 number) {
    LOCKTAG tag;
    SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, static_cast<uint32>(static_cast<uint64>(number) >> 32),
                         static_cast<uint32>(number), static_cast<uint16>(which));
    return tag;
}

}  // namespace jobq
