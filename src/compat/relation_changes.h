// Calls callbacks when the catalog entry of a relation changes. In PostgreSQL 15, a backend has ten slots for relation
// cache callbacks, which the server and all extensions share; this module uses one slot for all of jobq.
#pragma once

#include "compat/pg.h"

namespace jobq {

// A callback in the list of all callbacks. It receives the OID of the relation that might have changed, or InvalidOid
// if any relation might have changed. It must not raise an error or read a catalog.
struct RelationListener {
    void (*callback)(Oid relation);
    RelationListener *next;
    bool added;
};
void add_relation_listener(RelationListener *listener);

// Registers a callback, which stays registered until the process ends, unless it is already registered. Each callback
// has its own entry in static memory, so the number of callbacks has no limit.
template <void (*kCallback)(Oid relation)>
void on_relation_change() {
    static RelationListener listener = {kCallback, nullptr, false};
    if (!listener.added) add_relation_listener(&listener);
}

}  // namespace jobq
