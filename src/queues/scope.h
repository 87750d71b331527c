// The scope of a caller: the queues to which jobq_grant() with the argument `queues` has restricted the caller of a
// function.
//
// The caller is the user that is current when the function starts, so functions that check the scope must not be
// SECURITY DEFINER. Superusers, the owner, and members of the owner are allowed to use every queue. Any other caller
// has EXECUTE because of grants to itself or to roles of which it is a member. If one of these grants is unrestricted,
// the caller is allowed to use every queue. Otherwise, the caller is allowed to use all queues that any of the grants
// names. A grant to a producer, worker, or operator role is restricted if the role was granted SELECT on the column of
// jobq.producer_queues, jobq.worker_queues, or jobq.operator_queues, or if jobq.queue_grants contains rows of the role.
//
// A function raises 42501 if an argument names a queue that is out of scope, whether the queue exists or not. It treats
// a job in such a queue as if the job did not exist. A dead letter belongs both to the queue that contains it and to
// its home, which is the queue where it failed. A retry of the dead letter, or a dependency on it, checks only the
// home.
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

// Returns the scope of the user, or nullptr if the user is allowed to use all queues. The result is valid until the
// transaction ends. The call is very cheap if no grant is restricted.
const QueueScope *scope_of(Oid user, Oid function);
inline const QueueScope *scope_of(FunctionCallInfo fcinfo) { return scope_of(GetUserId(), fcinfo->flinfo->fn_oid); }

bool is_in_scope(const QueueScope *scope, std::string_view queue);
// Returns whether the job in table.row is in scope.
bool is_in_scope(const QueueScope *scope, const JobsTable &jobs);
// Returns whether the home of the job in table.row is in scope. The home of a dead letter is the queue to which it
// returns; the home of any other job is its own queue.
bool home_is_in_scope(const QueueScope *scope, const JobsTable &jobs);

// Returns whether the user is allowed to call the extension's function with this name for a queue. Call it inside
// with_spi().
bool may_call(Oid user, const char *function, std::string_view queue);

// check_scope() raises 42501 if the queue is out of scope. check_all_queues() raises 42501 if the caller is restricted
// to some queues.
void check_scope(const QueueScope *scope, std::string_view queue);
void check_all_queues(FunctionCallInfo fcinfo);

// Conditions for a statement whose parameter `scope` contains the queues as text[], or NULL if the caller is allowed to
// use all queues. The second condition checks the home of a job: the queue in which the job failed if it is a dead
// letter, or else the queue that contains the job.
#define IN_SCOPE(scope) "(" scope " IS NULL OR j.queue = ANY (" scope ") OR j.dead_from = ANY (" scope "))"
#define HOME_IN_SCOPE(scope) "(" scope " IS NULL OR coalesce(j.dead_from, j.queue) = ANY (" scope "))"
inline Datum scope_array(const QueueScope *scope) { return scope == nullptr ? Datum(0) : scope->array; }

// job_is_in_scope() returns whether the job exists and is in scope. home_is_in_scope() returns whether the job exists
// and its home is in scope. Call both functions inside with_owner_spi().
bool job_is_in_scope(const QueueScope *scope, int64 job);
bool home_is_in_scope(const QueueScope *scope, int64 job);

}  // namespace jobq
