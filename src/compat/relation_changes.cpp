// See relation_changes.h.
#include "compat/pg.h"

#include "compat/relation_changes.h"

#include <algorithm>

namespace jobq {

namespace {

constexpr int kMaxListeners = 8;
void (*listeners[kMaxListeners])(Oid);
int listener_count = 0;

void call_listeners(Datum, Oid relation) {
    for (int i = 0; i < listener_count; i++) listeners[i](relation);
}

}  // namespace

void on_relation_change(void (*callback)(Oid relation)) {
    if (std::find(listeners, listeners + listener_count, callback) != listeners + listener_count) return;
    if (listener_count == kMaxListeners) elog(ERROR, "jobq: too many listeners for relation changes");
    if (listener_count == 0) CacheRegisterRelcacheCallback(call_listeners, Datum(0));
    listeners[listener_count++] = callback;
}

}  // namespace jobq
