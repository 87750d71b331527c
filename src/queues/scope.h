// The queues to which the caller of a function is restricted (jobq_grant with `queues`).
//
// Who calls is the current user where the function begins: that is why no function that is restricted is SECURITY
// DEFINER. Superusers, the owner and its members may use every queue. Anybody else was granted EXECUTE, or is a member
// of roles that were: one of them whose grant is not restricted is enough, else it is the queues of all of them. A
// role's grant as producer, worker or operator is restricted while the role was granted the column of
// jobq.producer_queues and so on, or has rows in jobq.queue_grants.
//
// A foreign queue that is named is refused (42501), whether it exists or not. A job of a foreign queue is like one that
// does not exist. A dead letter is a job of the queue that it lies in and of the one that it came from; where it counts
// what becomes of it there, at its home, of that one alone.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "job/jobs_table.h"

#include <string_view>

namespace jobq {

struct QueueScope {
    std::string_view *queues;  // in their order, each once
    int count;
    Datum array;  // the same as text[]
};

// nullptr: all queues. Good until the transaction ends. Next to free while nobody's grant is restricted.
const QueueScope *scope_of(Oid user, Oid function);
inline const QueueScope *scope_of(FunctionCallInfo fcinfo) { return scope_of(GetUserId(), fcinfo->flinfo->fn_oid); }

bool is_in_scope(const QueueScope *scope, std::string_view queue);
// The same for the job in table.row.
bool is_in_scope(const QueueScope *scope, const JobsTable &jobs);
// The same for the queue to which a dead letter goes back.
bool home_is_in_scope(const QueueScope *scope, const JobsTable &jobs);

// Whether the user may call the extension's function of that name for a queue. Inside with_spi().
bool may_call(Oid user, const char *function, std::string_view queue);

// 42501 for a queue, or unless it is all queues.
void check_scope(const QueueScope *scope, std::string_view queue);
void check_all_queues(FunctionCallInfo fcinfo);

// For a statement: the queues as text[], or NULL. The second: whether the queue to which a dead letter goes back is.
#define IN_SCOPE(scope) "(" scope " IS NULL OR j.queue = ANY (" scope ") OR j.dead_from = ANY (" scope "))"
#define HOME_IN_SCOPE(scope) "(" scope " IS NULL OR coalesce(j.dead_from, j.queue) = ANY (" scope "))"
inline Datum scope_array(const QueueScope *scope) { return scope == nullptr ? Datum(0) : scope->array; }

// Inside with_owner_spi(): whether there is such a job in scope; the same for the queue to which a dead letter goes
// back.
bool job_is_in_scope(const QueueScope *scope, int64 job);
bool home_is_in_scope(const QueueScope *scope, int64 job);

}  // namespace jobq
