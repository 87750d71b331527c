// See relation_changes.h.
#include "compat/pg.h"

#include "compat/relation_changes.h"

namespace jobq {

namespace {

RelationListener *first = nullptr;

void call_listeners(Datum, Oid relation) {
    for (const RelationListener *listener = first; listener != nullptr; listener = listener->next)
        listener->callback(relation);
}

}  // namespace

void add_relation_listener(RelationListener *listener) {
    if (first == nullptr) CacheRegisterRelcacheCallback(call_listeners, Datum(0));
    listener->next = first;
    listener->added = true;
    first = listener;
}

}  // namespace jobq
