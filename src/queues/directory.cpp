// See directory.h.
//
// The cache is filled under a new snapshot instead of the snapshot of the transaction. If a REPEATABLE READ transaction
// filled the cache under its old snapshot, the session would keep stale settings after the transaction, because it
// would have already processed the invalidation message.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/queue_name.h"
#include "compat/relation_changes.h"
#include "compat/settings.h"
#include "compat/spi.h"
#include "queues/directory.h"
#include "queues/queue_settings.h"
#include "row/owner.h"

#include <algorithm>

namespace jobq {

namespace {

// Maximum number of cached queues, which limits the memory that a session needs if it uses many queue names.
constexpr int kMaxCachedQueues = 10000;

struct CacheEntry {
    QueueName name;         // hash key
    MemoryContext context;  // owns the memory to which `queue` points; nullptr: none
    Queue queue;            // valid if its generation is the current one
};

HTAB *cache = nullptr;
// The entry that was used last. It saves most lookups, because a call looks up its queue several times, and most
// sessions use one queue.
CacheEntry *last_used = nullptr;
uint64 current_generation = 1;
Oid settings_table = InvalidOid;
Oid limits_table = InvalidOid;
Oid kinds_table = InvalidOid;
Oid named_limits_table = InvalidOid;

// The SQL texts of these two statements are built when they are first used.
Statement read_settings = {nullptr, {TEXTOID}};
Statement read_kinds = {nullptr, {TEXTOID}};

Statement read_limits = {
    R"(SELECT l.key, l.max_running, l.rate, l.per, l.highest_slot, l.by_kind
       FROM jobq.limit_settings l WHERE l.queue = $1 ORDER BY l.by_kind, l.key COLLATE "C")",
    {TEXTOID}};
Statement read_named_limits = {
    R"(SELECT l.name, l.max_running, l.rate, l.per, l.highest_slot, l.queues
       FROM jobq.named_limit_settings l WHERE $1 = ANY (l.queues) ORDER BY l.name COLLATE "C")",
    {TEXTOID}};

void on_relcache_invalidation(Oid relation) {
    if (relation == InvalidOid || relation == settings_table || relation == limits_table || relation == kinds_table ||
        relation == named_limits_table)
        current_generation++;
}

void make_statements() {
    if (read_kinds.sql != nullptr) return;
    read_settings.sql = MemoryContextStrdup(TopMemoryContext,
                                            psprintf("SELECT s.paused%s FROM jobq.queue_settings s WHERE s.queue = $1",
                                                     setting_columns(core::SettingLevel::Queue, "s.")));
    read_kinds.sql = MemoryContextStrdup(
        TopMemoryContext,
        psprintf("SELECT k.kind%s FROM jobq.kind_settings k WHERE k.queue = $1 ORDER BY k.kind COLLATE \"C\"",
                 setting_columns(core::SettingLevel::Kind, "k.")));
}

// Frees the memory of an entry when the transaction ends, because a copy of its queue might still be in use.
void free_at_end(CacheEntry *entry) {
    if (entry->context == nullptr) return;
    if (MemoryContextIsEmpty(entry->context))
        MemoryContextDelete(entry->context);
    else
        MemoryContextSetParent(entry->context, TopTransactionContext);
    entry->context = nullptr;
}

void open_cache() {
    if (cache == nullptr) {
        cache = make_hash_table("jobq queues", sizeof(QueueName), sizeof(CacheEntry), CacheMemoryContext);
        on_relation_change<on_relcache_invalidation>();
    }
    if (hash_get_num_entries(cache) <= kMaxCachedQueues) return;
    last_used = nullptr;
    HASH_SEQ_STATUS scan;
    hash_seq_init(&scan, cache);
    while (auto *entry = static_cast<CacheEntry *>(hash_seq_search(&scan))) {
        free_at_end(entry);
        hash_search(cache, entry->name, HASH_REMOVE, nullptr);
    }
}

core::Micros span_or(const Row &row, int column, core::Micros otherwise) {
    if (row.is_null(column)) return otherwise;
    return span_of(DatumGetIntervalP(row.get(column)));
}

int32 int_or(const Row &row, int column, int32 otherwise) {
    return row.is_null(column) ? otherwise : row.int32_at(column);
}

void load_settings(Queue *queue, const Params &name, Snapshot snapshot, MemoryContext context) {
    const Rows rows = read(read_settings, name, snapshot);
    *queue = {core::kDefaultSettings};
    if (rows.size() == 0) return;
    queue->has_settings = true;
    queue->paused = rows[0].bool_at(1);
    read_settings_at(rows[0], 2, core::SettingLevel::Queue, context, queue);
}

void load_kinds(Queue *queue, const Params &name, Snapshot snapshot, MemoryContext context) {
    const Rows rows = read(read_kinds, name, snapshot);
    if (rows.size() == 0) return;
    queue->kinds = static_cast<KindOfQueue *>(
        MemoryContextAllocHuge(context, static_cast<Size>(sizeof(KindOfQueue) * rows.size())));
    for (uint64 i = 0; i < rows.size(); i++) {
        KindOfQueue *kind = &queue->kinds[queue->kind_count++];
        *kind = {*queue, keep(context, rows[i].text_at(1))};
        read_settings_at(rows[i], 2, core::SettingLevel::Kind, context, kind);
    }
}

QueueLimit limit_in(const Row &row, MemoryContext context) {
    return {keep(context, row.text_at(1)), int_or(row, 2, -1), core::make_rate(int_or(row, 3, 0), span_or(row, 4, 0)),
            row.int32_at(5), false};
}

void load_members(QueueLimit *limit, Datum queues, MemoryContext context) {
    const Names names = names_of(DatumGetArrayTypeP(queues), "queues", SIZE_MAX, PG_INT32_MAX);
    auto *members =
        static_cast<std::string_view *>(MemoryContextAlloc(context, sizeof(std::string_view) * names.count));
    for (int i = 0; i < names.count; i++) members[i] = keep(context, names.items[i]);
    limit->members = members;
    limit->member_count = names.count;
}

void load_limits(Queue *queue, const Params &name, Snapshot snapshot, MemoryContext context) {
    const Rows rows = read(read_limits, name, snapshot), named = read(read_named_limits, name, snapshot);
    if (rows.size() + named.size() == 0) return;
    queue->limits =
        static_cast<QueueLimit *>(MemoryContextAlloc(context, sizeof(QueueLimit) * (rows.size() + named.size())));
    for (uint64 i = 0; i < rows.size(); i++) {
        QueueLimit *limit = &queue->limits[queue->limit_count++];
        *limit = limit_in(rows[i], context);
        limit->by_kind = rows[i].bool_at(6);
        if (limit->by_kind) queue->kind_limit_count++;
    }
    for (uint64 i = 0; i < named.size(); i++) {
        QueueLimit *limit = &queue->limits[queue->limit_count++];
        *limit = limit_in(named[i], context);
        load_members(limit, named[i].get(6), context);
        queue->named_limit_count++;
    }
}

void load(CacheEntry *entry, std::string_view name) {
    // Reads the generation first, so that an invalidation message that arrives during the load makes the entry stale
    // again.
    const uint64 generation = current_generation;
    free_at_end(entry);
    entry->queue.generation = 0;
    MemoryContext context = AllocSetContextCreate(CacheMemoryContext, "jobq queue", ALLOCSET_SMALL_SIZES);
    entry->context = context;
    const Oid schema = get_namespace_oid("jobq", false);
    settings_table = get_relname_relid("queue_settings", schema);
    limits_table = get_relname_relid("limit_settings", schema);
    kinds_table = get_relname_relid("kind_settings", schema);
    named_limits_table = get_relname_relid("named_limit_settings", schema);

    // Reads as the owner, because the caller might have no privileges on the tables.
    with_owner_spi([&] {
        make_statements();
        const Params parameters = Params().add(PointerGetDatum(make_text(name)));
        Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
        load_settings(&entry->queue, parameters, snapshot, context);
        load_kinds(&entry->queue, parameters, snapshot, context);
        load_limits(&entry->queue, parameters, snapshot, context);
        UnregisterSnapshot(snapshot);
    });
    entry->queue.generation = generation;
}

CacheEntry *entry_of(std::string_view name) {
    if (last_used != nullptr && same_queue(last_used->name, name)) return last_used;
    open_cache();
    QueueName key;
    copy_queue(key, name);
    bool found;
    auto *entry = static_cast<CacheEntry *>(hash_search(cache, key, HASH_ENTER, &found));
    if (!found) {
        entry->queue.generation = 0;
        entry->context = nullptr;
    }
    last_used = entry;
    return entry;
}

}  // namespace

const Queue *find_queue(std::string_view name) {
    // Without this call, the session would receive invalidation messages only when it takes a new lock, so a long
    // transaction would never notice that the queue was paused.
    AcceptInvalidationMessages();
    CacheEntry *entry = entry_of(name);
    if (entry->queue.generation != current_generation) load(entry, name);
    return &entry->queue;
}

const core::QueueSettings &find_kind(const Queue &queue, std::string_view kind) {
    const KindOfQueue *first = queue.kinds, *end = first + queue.kind_count;
    const KindOfQueue *found = std::lower_bound(
        first, end, kind, [](const KindOfQueue &one, std::string_view name) { return one.kind < name; });
    if (found == end || found->kind != kind) return queue;
    return *found;
}

bool is_current(const Queue &queue) {
    AcceptInvalidationMessages();
    return queue.generation == current_generation;
}

void require_known_queue(std::string_view name) {
    if (!settings.require_queues || find_queue(name)->has_settings) return;
    ereport(
        ERROR,
        (errcode(ERRCODE_UNDEFINED_OBJECT),
         errmsg("queue \"%.*s\" does not exist", static_cast<int>(name.size()), name.data()),
         errhint(
             "Create the queue with jobq_create_queue(), which is required because \"jobq.require_queues\" is on.")));
}

void invalidate_directory(Oid table) { CacheInvalidateRelcacheByRelid(table); }

}  // namespace jobq
