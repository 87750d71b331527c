// The scope of a caller: the queues to which jobq_grant() with the argument `queues` has restricted the caller of a
// function.
//
// The caller is the user that is current when the function starts, so functions that check the scope must not be
// SECURITY DEFINER. Superusers, the owner, and members of the owner may use every queue. Any other caller has EXECUTE
// because of grants to itself or to roles of which it is a member. If one of these grants is unrestricted, the caller
// may use every queue; otherwise, the caller may use the queues of all the grants. A grant to a producer, worker, or
// operator role is restricted if the role was granted SELECT on the column of jobq.producer_queues, jobq.worker_queues,
// or jobq.operator_queues, or if jobq.queue_grants contains rows of the role.
//
// A function raises 42501 if an argument names a queue that is out of scope, whether the queue exists or not. It treats
// a job of such a queue as if the job did not exist. A dead letter belongs to the queue that contains it and to its
// home, which is the queue where it failed. A retry or a dependency on the dead letter checks only the home.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "row/jobs_table.h"

#include <string_view>

namespace jobq {

struct QueueScope {
    std::string_view *queues;  // sorted, without duplicates
    int count;
    Datum array;  // the queues as text[]
};

// Returns nullptr if the caller may use all queues. The result is valid until the transaction ends. The call is very
// cheap if no grant is restricted.
const QueueScope *scope_of(Oid user, Oid function);
inline const QueueScope *scope_of(FunctionCallInfo fcinfo) { return scope_of(GetUserId(), fcinfo->flinfo->fn_oid); }

bool is_in_scope(const QueueScope *scope, std::string_view queue);
// Returns whether the job in table.row is in scope.
bool is_in_scope(const QueueScope *scope, const JobsTable &jobs);
// Returns whether the home of the job in table.row is in scope, which is the queue that a dead letter returns to.
bool home_is_in_scope(const QueueScope *scope, const JobsTable &jobs);

// Returns whether the user may call the extension's function with this name for a queue. Call it inside with_spi().
bool may_call(Oid user, const char *function, std::string_view queue);

// check_scope() raises 42501 if the queue is out of scope, and check_all_queues() if the caller is restricted to some
// queues.
void check_scope(const QueueScope *scope, std::string_view queue);
void check_all_queues(FunctionCallInfo fcinfo);

// Conditions for a statement whose parameter `scope` contains the queues as text[], or NULL if the caller may use all
// queues. The second condition checks the home of a job.
#define IN_SCOPE(scope) "(" scope " IS NULL OR j.queue = ANY (" scope ") OR j.dead_from = ANY (" scope "))"
#define HOME_IN_SCOPE(scope) "(" scope " IS NULL OR coalesce(j.dead_from, j.queue) = ANY (" scope "))"
inline Datum scope_array(const QueueScope *scope) { return scope == nullptr ? Datum(0) : scope->array; }

// Return whether the job exists and is in scope, or exists and its home is in scope. Call them inside with_owner_spi().
bool job_is_in_scope(const QueueScope *scope, int64 job);
bool home_is_in_scope(const QueueScope *scope, int64 job);

}  // namespace jobq
