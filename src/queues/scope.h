// The queues to which the caller of a function is restricted (jobq_grant with `queues`).
//
// The caller is the current user when the function starts, so no restricted function is SECURITY DEFINER. Superusers,
// the owner, and members of the owner may use every queue. Any other caller was granted EXECUTE or is a member of roles
// that were. If one of these grants is unrestricted, the caller may use every queue; otherwise, the queues of all of
// them. The grant of a producer, worker, or operator role is restricted if the role was granted the column of
// jobq.producer_queues (or worker_queues, operator_queues), or has rows in jobq.queue_grants.
//
// Naming a queue out of scope raises 42501, whether the queue exists or not. A job of such a queue is treated as if it
// did not exist. A dead letter belongs to the queue it lies in and to its home, which is the queue it came from. For
// what the home decides, it belongs to its home only.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "row/jobs_table.h"

#include <string_view>

namespace jobq {

struct QueueScope {
    std::string_view *queues;  // sorted, without duplicates
    int count;
    Datum array;  // the same as text[]
};

// Returns nullptr if the caller may use all queues. The result is valid until the transaction ends. The call is almost
// free while no grant is restricted.
const QueueScope *scope_of(Oid user, Oid function);
inline const QueueScope *scope_of(FunctionCallInfo fcinfo) { return scope_of(GetUserId(), fcinfo->flinfo->fn_oid); }

bool is_in_scope(const QueueScope *scope, std::string_view queue);
// Returns whether the job in table.row is in scope.
bool is_in_scope(const QueueScope *scope, const JobsTable &jobs);
// Returns whether the home of the job in table.row is in scope, which is the queue that a dead letter returns to.
bool home_is_in_scope(const QueueScope *scope, const JobsTable &jobs);

// Returns whether the user may call the extension's function with this name for a queue. Call it inside with_spi().
bool may_call(Oid user, const char *function, std::string_view queue);

// Raise 42501 if the queue is out of scope, or if the caller is restricted at all.
void check_scope(const QueueScope *scope, std::string_view queue);
void check_all_queues(FunctionCallInfo fcinfo);

// Conditions for a statement whose parameter `scope` is the queues as text[], or NULL. The second one is for the home
// of a job.
#define IN_SCOPE(scope) "(" scope " IS NULL OR j.queue = ANY (" scope ") OR j.dead_from = ANY (" scope "))"
#define HOME_IN_SCOPE(scope) "(" scope " IS NULL OR coalesce(j.dead_from, j.queue) = ANY (" scope "))"
inline Datum scope_array(const QueueScope *scope) { return scope == nullptr ? Datum(0) : scope->array; }

// Return whether the job exists and is in scope, or its home is. Call them inside with_owner_spi().
bool job_is_in_scope(const QueueScope *scope, int64 job);
bool home_is_in_scope(const QueueScope *scope, int64 job);

}  // namespace jobq
