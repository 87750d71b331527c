/* Dependencies and awaited jobs: how a dependent learns that a target has ended. docs/internals/models.md explains this model.
 *
 * Job D depends on T1 and T2. With CHAIN, job E depends on D. With AWAIT, job A runs and then awaits T1. With BY_HAND, D depends on
 * T2 only, and a session adds the edge to T1 with plain SQL. With LOCKED, a session locks D and changes nothing. A target completes
 * or fails, and D is canceled or runs if one fails.
 *
 * Each atomic block is one step that no other session can observe half done: a statement's snapshot, a lock, a change of shared
 * memory, or the moment at which a transaction becomes visible. The comments name the function that makes the step.
 *
 * scope MISHAPS=1
 * scope CHAIN MISHAPS=0
 * scope AWAIT MISHAPS=0
 * scope BY_HAND MISHAPS=0
 * scope LOCKED MISHAPS=0
 * liveness MISHAPS=0
 *
 * defect ends_not_watched MISHAPS=0: the end of a target is not published
 * defect watched_before_visible MISHAPS=0: a transaction checks whether its job is awaited before its commit is visible
 * defect snapshot_before_watch MISHAPS=0: the promoter checks whether a target has ended before it adds the target to the set
 * defect new_not_published MISHAPS=0: a producer does not publish its new job
 * defect published_before_visible MISHAPS=0: a producer publishes its new job before its commit is visible
 * defect next_not_looked_at MISHAPS=0: the promoter adds the next target to the set and does not check this target again
 * defect set_not_rebuilt MISHAPS=1: after shared memory was lost, the promoter does not search the table
 * defect taken_entries_lost MISHAPS=1: after its transaction was rolled back, the promoter does not search the table
 * defect locked_forgotten LOCKED MISHAPS=0: the promoter does not check a job again that another transaction has locked
 * defect prepared_not_noticed MISHAPS=1: no session notices that a prepared transaction was committed
 * defect dependents_not_locked BY_HAND MISHAPS=0: plain SQL adds an edge without locking the dependent
 * defect look_before_lock BY_HAND MISHAPS=0: the promoter checks the targets before it locks the dependent
 * defect wait_not_published AWAIT MISHAPS=0: a job that begins to wait is not published
 */

#ifndef MISHAPS
#define MISHAPS 1 /* rollbacks, crashes, and prepared transactions in one run, all together */
#endif

#define T1 0
#define T2 1
#define D 2
#define E 3 /* with CHAIN */
#define A 4 /* with AWAIT */
#define JOBS 5
#define NONE 255
#define EVERYTHING 9
#define FREE 0
#define PREPARED 99

mtype = { unused, absent, blocked, pending, running, completed, failed }; /* failed: also canceled */
mtype = { leave, promote, cancel, move };

/* What is visible, and what the transaction that holds the row has written. */
mtype status[JOBS];
mtype written[JOBS];
byte active_edge[JOBS]; /* the target of the active edge */
byte written_edge[JOBS];
bool edge_to_t1; /* D has an edge to T1 */
bool cancels;    /* on_failure of the edges of D */
byte locker[JOBS];

/* Shared memory: the promoter's list (src/groups/unblocked_list.cpp) and the set of awaited jobs (src/edges/awaited_jobs.cpp). */
bool listed_end[JOBS]; /* this job may have ended */
bool listed_job[JOBS]; /* the targets of this job must be checked */
bool list_search;      /* an entry may be missing */
bool awaited[JOBS];
bool awaited_before[JOBS]; /* the entry is older than the search in progress */
bool anything_awaited;     /* the entry kDatabase */

bool edges_exist; /* the index of active edges has entries, visible or not: src/edges/edges.cpp:any_active */
byte crashes, mishaps;
bool restarted; /* the server has crashed since the promoter began its transaction */

#define MISHAP mishaps < MISHAPS -> mishaps++
/* Does the action for each job from j on, and sets j to 0. */
#define each(bound, action) do :: j bound -> action; j++ :: else -> j = 0; break od
/* Does the action if the condition is true. */
#define when(condition, action) if :: (condition) -> action :: else fi
#define HOLDS(j) (locker[j] == _pid + 1)
#define FINISHED(s) (s == completed || s == failed)
#define SEEN(j) (HOLDS(j) -> written[j] : status[j])
#define SEEN_EDGE(j) (HOLDS(j) -> written_edge[j] : active_edge[j])
/* A target because of which D does not wait. */
#define SATISFIED(t) (status[t] == completed || (status[t] == failed && !cancels))

#define OVER(j) (status[j] == completed || status[j] == failed || status[j] == unused)
#define ALL_OVER (OVER(T1) && OVER(T2) && OVER(D) && OVER(E) && OVER(A))

inline lock(j) { locker[j] = _pid + 1; written[j] = status[j]; written_edge[j] = active_edge[j] }
inline unlock(j) { locker[j] = FREE; written[j] = 0; written_edge[j] = 0 }
inline become_visible(j) { status[j] = written[j]; active_edge[j] = written_edge[j]; unlock(j) }
inline await_job(job) { awaited[job] = true; awaited_before[job] = false }

/* Ends job j when it is claimable. The claim and the run of the job are one step here. */
proctype Ender(byte j) {
    byte at_crash;
    bool is_awaited;
end:
    atomic {
        locker[j] == FREE && status[j] == pending ->
        assert(j != D || (SATISFIED(T2) && (!edge_to_t1 || SATISFIED(T1)))); /* no job runs before its targets end */
        assert(j != E || status[D] == completed);
        lock(j);
        if :: written[j] = completed :: written[j] = failed fi
    }
#ifdef watched_before_visible
    is_awaited = anything_awaited && (written[j] == failed || awaited[j]);
#endif
    atomic {
        if
        :: HOLDS(j) -> become_visible(j); at_crash = crashes
        :: HOLDS(j) && MISHAP; unlock(j); goto end
        :: HOLDS(j) && MISHAP; locker[j] = PREPARED; goto done
        :: !HOLDS(j) -> goto end
        fi
    }
    /* src/commit/at_commit.cpp:unblock_followers: reads the set after the commit is visible */
#ifdef ends_not_watched
    goto done;
#endif
#ifndef watched_before_visible
    atomic {
        if
        :: at_crash == crashes && anything_awaited /* src/edges/awaited_jobs.cpp:any_job_awaited */
        :: else -> goto done
        fi
    }
    is_awaited = status[j] == failed || awaited[j]; /* src/edges/awaited_jobs.cpp:job_is_awaited */
#endif
    atomic {
        when(at_crash == crashes && is_awaited, listed_end[j] = true) /* src/groups/unblocked_list.cpp:unblock_now */
    }
done:
    atomic { at_crash = 0; is_awaited = false }
}

/* Enqueues D or E: src/edges/dependencies.cpp:add_dependencies */
proctype Producer(byte j) {
    byte at_crash;
enqueue:
    atomic { /* the target is visible */
        (j == D && status[T1] != absent) || (j == E && status[D] != absent) ->
        lock(j); written[j] = blocked; written_edge[j] = j - 1; edges_exist = true
    }
#ifdef published_before_visible
    atomic { if :: j == D -> listed_job[j] = true :: else -> listed_end[D] = true fi }
#endif
    atomic {
        if
        :: HOLDS(j) -> become_visible(j); at_crash = crashes
        :: HOLDS(j) && MISHAP; unlock(j); goto enqueue
        :: HOLDS(j) && MISHAP; locker[j] = PREPARED; goto done
        :: !HOLDS(j) -> goto enqueue
        fi
    }
#if !defined(new_not_published) && !defined(published_before_visible)
    atomic { /* src/groups/unblocked_list.cpp:publish_unblocked. A job with one dependency publishes this dependency. */
        if
        :: at_crash == crashes && j == D -> listed_job[D] = true
        :: at_crash == crashes && j == E -> listed_end[D] = true
        :: else
        fi
    }
#endif
done: at_crash = 0
}
#ifdef AWAIT
/* A runs, awaits T1, and ends when T1 has ended: src/workflows/waits.cpp:wait_for */
proctype Awaiter() {
    byte at_crash;
claim:
end:
    atomic { status[A] == pending && locker[A] == FREE -> status[A] = running }
look:
    atomic { /* src/workflows/waits.cpp:look_at: a snapshot, and in the same statement the change of the row */
        locker[A] == FREE ->
        if
        :: FINISHED(status[T1]) -> status[A] = completed; goto done
        :: else -> lock(A); written[A] = blocked; written_edge[A] = T1; edges_exist = true
        fi
    }
    atomic { /* src/workflows/waits.cpp:save_look */
        if
        :: HOLDS(A) -> become_visible(A); at_crash = crashes
        :: HOLDS(A) && MISHAP; unlock(A); goto look
        :: !HOLDS(A) -> goto look
        fi
    }
#ifndef wait_not_published
    atomic {
        when(at_crash == crashes, listed_job[A] = true)
    }
#endif
    at_crash = 0;
    goto claim;
done: skip
}
#endif
#ifdef BY_HAND
/* INSERT INTO jobq.edges: src/triggers/edge_changed.cpp:follow_change */
proctype PlainSql() {
    byte at_crash;
    status[D] != absent;
    atomic {
        /* src/groups/dependents.cpp:lock_dependents waits for a transaction that has locked the dependent. A dependent that has
         * started no longer waits for anything. */
#ifndef dependents_not_locked
        locker[D] == FREE ->
#endif
        if
        :: status[D] == blocked || status[D] == pending ->
#ifndef dependents_not_locked
            lock(D)
#endif
        :: else -> goto done
        fi
    }
    /* src/groups/dependents.cpp:block_dependents, under a snapshot that is newer than the lock */
    atomic {
        if
#ifndef dependents_not_locked
        :: !HOLDS(D) -> goto done
#endif
        :: status[D] == pending && !SATISFIED(T1) ->
#ifdef dependents_not_locked
            if :: locker[D] == FREE -> lock(D) :: else -> goto done fi;
#endif
            written[D] = blocked; written_edge[D] = T2 /* src/groups/dependents.cpp:settle_dependents */
        :: else
        fi
    }
    atomic {
        if
        :: HOLDS(D) -> become_visible(D); edge_to_t1 = true
#ifdef dependents_not_locked
        :: !HOLDS(D) -> edge_to_t1 = true
#else
        :: HOLDS(D) && MISHAP; unlock(D); goto done
        :: !HOLDS(D) -> goto done
#endif
        fi;
        at_crash = crashes
    }
    atomic {
        when(at_crash == crashes, listed_job[D] = true)
    }
done: at_crash = 0
}
#endif

#ifdef LOCKED
/* SELECT ... FOR UPDATE */
proctype Holder() {
end:
    atomic { locker[D] == FREE && status[D] == blocked -> lock(D) }
    atomic { when(HOLDS(D), unlock(D)) }
}
#endif

/* src/groups/dependents.cpp:keep_ended: a snapshot */
inline ended_snapshot() {
    atomic {
        each(< JOBS, end_of[j] = end_of[j] && FINISHED(status[j]))
    }
}

/* src/groups/edge_ends.cpp:watch_targets */
inline watch_targets() {
    atomic {
        when(restarted, goto abandon);
        j = D;
        each(<= A, target = SEEN_EDGE(j); when(whole[j] && SEEN(j) == blocked && target != NONE, await_job(target)));
        target = 0
    }
}

/* src/groups/dependents.cpp:look_at: the highest target that has not ended or because of which the job must be canceled */
inline look() {
    atomic {
        found[D] = leave; found[E] = leave;
        if
        :: below[D] == 0
        :: below[D] > T2 && !FINISHED(status[T2]) -> found[D] = move; next[D] = T2
        :: below[D] > T2 && status[T2] == failed && cancels -> found[D] = cancel
        :: below[D] > 0 && !(below[D] > T2 && !SATISFIED(T2)) ->
            if
            :: edge_to_t1 && !FINISHED(status[T1]) -> found[D] = move; next[D] = T1
            :: edge_to_t1 && status[T1] == failed && cancels -> found[D] = cancel
            :: else -> found[D] = promote
            fi
        fi;
        if
        :: below[E] == 0
        :: below[E] > 0 && !FINISHED(SEEN(D)) -> found[E] = move; next[E] = D
        :: below[E] > 0 && SEEN(D) == failed -> found[E] = cancel
        :: below[E] > 0 && SEEN(D) == completed -> found[E] = promote
        fi
    }
}

/* The transactions of the background worker in src/groups/unblock.cpp:unblock_jobs */
#define LISTED(j) (listed_end[j] || listed_job[j] || again_end[j] || again_job[j])
#define WORK (list_search || search || LISTED(T1) || LISTED(T2) || LISTED(D) || LISTED(E) || LISTED(A))

proctype Promoter() {
    bool again_end[JOBS], again_job[JOBS]; /* src/groups/unblock.cpp:look_again */
    bool end_of[JOBS], whole[JOBS];        /* the entries that it has taken */
    bool own_end[JOBS];                    /* the entries that its own transaction publishes */
    byte below[JOBS];                      /* candidates: only targets with lower ids must be checked */
    mtype found[JOBS];
    byte next[JOBS];
    bool search, searching, cancelled, second;
    byte j, target;
begin:
end:
    atomic { /* src/groups/unblocked_list.cpp:take_unblocked */
        WORK ->
        restarted = false;
        searching = list_search || search;
        list_search = false; search = false;
        j = 0;
        do
        :: j < JOBS ->
            end_of[j] = listed_end[j] || again_end[j];
            whole[j] = listed_job[j] || again_job[j];
            listed_end[j] = false; listed_job[j] = false; again_end[j] = false; again_job[j] = false;
            j++
        :: else -> j = 0; break
        od
    }
    atomic { /* src/groups/edge_ends.cpp:look_at_edges */
        when(restarted, goto abandon);
        when(edges_exist, anything_awaited = true); /* src/edges/awaited_jobs.cpp:note_awaiting */
        each(< JOBS, when(end_of[j], await_job(j)));
        when(!(end_of[T1] || end_of[T2] || end_of[D]), goto whole_jobs)
    }
    ended_snapshot();
    atomic { /* src/edges/awaited_jobs.cpp:stop_awaiting_job */
        if
        :: restarted -> goto abandon
        :: !restarted && !(end_of[T1] || end_of[T2] || end_of[D]) -> goto whole_jobs
        :: else
        fi;
        each(< JOBS, when(end_of[j], awaited[j] = false; awaited_before[j] = false))
    }
    atomic { /* src/groups/dependents.cpp:find_dependents: a snapshot */
        below[D] = 0; below[E] = 0;
        if
        :: SEEN(D) == blocked && end_of[T1] && edge_to_t1 && (SEEN_EDGE(D) == T1 || (status[T1] == failed && cancels)) ->
            below[D] = T1 + 1
        :: else
        fi;
        when(SEEN(D) == blocked && end_of[T2] && (SEEN_EDGE(D) == T2 || (status[T2] == failed && cancels)), below[D] = T2 + 1);
        when(SEEN(E) == blocked && end_of[D], below[E] = D + 1);
        when(status[A] == blocked && end_of[T1], whole[A] = true); /* src/groups/awaiters.cpp:find_awaiters */
        end_of[T1] = false; end_of[T2] = false; end_of[D] = false; end_of[E] = false; end_of[A] = false;
    }

settle: /* src/groups/dependents.cpp:settle */
    if
    :: atomic { below[D] == 0 && below[E] == 0 && !second -> goto whole_jobs }
    :: atomic { below[D] == 0 && below[E] == 0 && second -> goto awaiters }
    :: below[D] > 0 || below[E] > 0
    fi;
#ifdef look_before_lock
    look();
#endif
    atomic { /* src/groups/dependents.cpp:lock_candidates: skips locked rows */
        when(restarted, goto abandon);
        j = D;
        do
        :: j <= E ->
            if
            :: below[j] == 0 || (HOLDS(j) && written[j] == blocked)
            :: below[j] > 0 && locker[j] == FREE && status[j] == blocked -> lock(j)
            :: else ->
                below[j] = 0;
#ifndef locked_forgotten
                again_job[j] = true
#endif
            fi;
            j++
        :: else -> j = 0; break
        od
    }
#ifndef look_before_lock
    look();
#endif
    atomic { /* the results: src/groups/dependents.cpp:promote_jobs, cancel_found, and src/groups/dependents.cpp:activate_next */
        when(restarted, goto abandon);
        cancelled = false;
        j = D;
        do
        :: j <= E ->
            if
            :: below[j] > 0 && found[j] == promote -> written[j] = pending; written_edge[j] = NONE
            :: below[j] > 0 && found[j] == cancel -> written[j] = failed; written_edge[j] = NONE; cancelled = true
            :: below[j] > 0 && found[j] == move ->
                written_edge[j] = next[j];
#ifndef next_not_looked_at
                /* src/groups/dependents.cpp:look_later */
                when(!awaited[next[j]], own_end[next[j]] = true);
#endif
                await_job(next[j])
            :: else
            fi;
            below[j] = 0; found[j] = leave; next[j] = 0;
            j++
        :: else -> j = 0; break
        od
    }
    if
    :: !second
    :: second && searching && cancelled /* src/groups/edge_ends.cpp:search_edges: until no job is canceled */
    :: second && !(searching && cancelled) -> goto awaiters
    fi;
whole_jobs: /* a search looks at all jobs that have an active edge */
    atomic {
        if
        :: !searching && !whole[D] && !whole[E] && !whole[A] -> goto commit
        :: searching && !second ->
            each(< JOBS, awaited_before[j] = awaited[j]) /* src/edges/awaited_jobs.cpp:begin_awaited_search */
        :: searching && second
        :: !searching -> second = true; goto watch
        fi;
        second = true
    }
    atomic { /* src/groups/edge_ends.cpp:find_waiting: a snapshot */
        whole[D] = whole[D] || SEEN(D) == blocked;
        whole[E] = whole[E] || SEEN(E) == blocked;
        whole[A] = whole[A] || SEEN(A) == blocked
    }
watch:
#ifndef snapshot_before_watch
    watch_targets();
#endif
    atomic { /* src/groups/dependents.cpp:find_failed: a snapshot */
        if
        :: !whole[D] || SEEN(D) != blocked
        :: whole[D] && SEEN(D) == blocked ->
            if
            :: cancels && edge_to_t1 && status[T1] == failed -> below[D] = T1 + 1
            :: cancels && status[T2] == failed && !(edge_to_t1 && status[T1] == failed) -> below[D] = T2 + 1
            :: else ->
                if
                :: SEEN_EDGE(D) == NONE -> below[D] = EVERYTHING
                :: else ->
                    when(FINISHED(status[active_edge[D]]), below[D] = EVERYTHING)
                fi
            fi
        fi;
        when(whole[E] && SEEN(E) == blocked && FINISHED(SEEN(D)), below[E] = EVERYTHING);
#ifndef snapshot_before_watch
        whole[D] = false; whole[E] = false
#endif
    }
#ifdef snapshot_before_watch
    watch_targets();
    atomic { whole[D] = false; whole[E] = false }
#endif
    goto settle;
awaiters:
#ifdef AWAIT
    /* src/groups/awaiters.cpp:look_at_awaiters: whether the wait is over, and only then the lock */
    atomic {
        if :: whole[A] && status[A] == blocked && FINISHED(status[T1]) :: else -> whole[A] = false fi
    }
    atomic { /* src/groups/awaiters.cpp:free_jobs */
        if
        :: restarted -> goto abandon
        :: !restarted && !whole[A]
        :: !restarted && whole[A] && locker[A] == FREE && status[A] == blocked ->
            lock(A); written[A] = pending; written_edge[A] = NONE
        :: else -> again_job[A] = true
        fi;
        whole[A] = false
    }
#endif
    if
    :: !searching
    :: searching ->
        atomic { /* src/edges/awaited_jobs.cpp:end_awaited_search */
            when(restarted, goto abandon);
            each(< JOBS, when(awaited_before[j], awaited[j] = false; awaited_before[j] = false))
        }
    fi;

commit:
    atomic {
        if :: restarted -> goto abandon :: !restarted :: !restarted && MISHAP; goto roll_back fi;
        j = D;
        do
        :: j <= A ->
            if
            :: HOLDS(j) ->
                own_end[j] = written[j] == failed; /* the job is canceled, and src/commit/at_commit.cpp:wake_for_finished follows */
                become_visible(j)
            :: else
            fi;
            j++
        :: else -> j = 0; break
        od;
        searching = false; second = false; cancelled = false
    }
    atomic { /* src/groups/unblocked_list.cpp:publish_unblocked */
        when(restarted, goto abandon);
        each(< JOBS, listed_end[j] = listed_end[j] || own_end[j]; own_end[j] = false);
        goto begin
    }
roll_back: /* src/groups/unblock.cpp:undo_unblocking */
#ifndef taken_entries_lost
    search = true;
#endif
abandon:
    atomic {
        j = 0;
        do
        :: j < JOBS ->
            when(HOLDS(j), unlock(j));
            end_of[j] = false; whole[j] = false; own_end[j] = false; below[j] = 0; found[j] = leave; next[j] = 0;
            when(restarted, again_end[j] = false; again_job[j] = false);
            j++
        :: else -> j = 0; break
        od;
        searching = false; second = false; cancelled = false;
        goto begin
    }
}

/* Another session ends a prepared transaction: src/commit/prepared.cpp:settle_prepared_before_commit */
inline settle_prepared(j) {
    if
    :: become_visible(j);
#ifndef prepared_not_noticed
        if /* src/commit/at_commit.cpp:publish_prepared */
        :: j >= D || anything_awaited -> list_search = true
        :: else
        fi
#endif
    :: unlock(j);
       if :: status[j] == absent -> run Producer(j) :: else -> run Ender(j) fi
    fi
}
proctype Resolver() {
end:
    do
    :: atomic { locker[T1] == PREPARED -> settle_prepared(T1) }
    :: atomic { locker[T2] == PREPARED -> settle_prepared(T2) }
    :: atomic { locker[D] == PREPARED -> settle_prepared(D) }
    :: atomic { locker[E] == PREPARED -> settle_prepared(E) }
    od
}

/* The server crashes and starts again. The next process that reads the list searches: src/groups/unblocked_list.cpp:start_list */
proctype Crash() {
    byte j;
end:
    atomic {
        MISHAP;
        crashes++; restarted = true;
        do
        :: j < JOBS ->
            when(locker[j] != FREE && locker[j] != PREPARED, unlock(j));
            listed_end[j] = false; listed_job[j] = false; awaited[j] = false; awaited_before[j] = false;
            j++
        :: else -> j = 0; break
        od;
        anything_awaited = false;
#ifndef set_not_rebuilt
        list_search = true
#else
        list_search = false
#endif
    }
}

init {
    atomic {
        status[T1] = pending; status[T2] = pending; status[D] = absent; status[E] = unused; status[A] = unused;
        active_edge[D] = NONE; active_edge[E] = NONE; active_edge[A] = NONE;
#ifndef BY_HAND
        edge_to_t1 = true;
#endif
        if :: cancels = true :: cancels = false fi;
        run Ender(T1); run Ender(T2); run Ender(D); run Producer(D); run Promoter(); run Resolver(); run Crash();
#ifdef CHAIN
        status[E] = absent; run Ender(E); run Producer(E);
#endif
#ifdef AWAIT
        status[A] = pending; run Awaiter();
#endif
#ifdef LOCKED
        run Holder();
#endif
#ifdef BY_HAND
        run PlainSql();
#endif
    }
    ALL_OVER /* otherwise, the end of the run is invalid */
}

/* Every job ends: no job stays blocked although its targets have ended. */
ltl ended { <> ALL_OVER }
