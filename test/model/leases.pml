/* The life of a lease: claims, heartbeats, reports, the rescue, and young leases. docs/internals/models.md explains this model.
 *
 * Each atomic block is one step that no other session can observe half done: a snapshot, a lock on a row together with the new row
 * version, or the moment at which a transaction becomes visible or is rolled back. The comments name the functions that make the
 * steps.
 *
 * scope WORKERS=2 JOBS=1 MISHAPS=2
 * scope WORKERS=3 JOBS=1 MISHAPS=1
 * scope WORKERS=2 JOBS=2 MISHAPS=0
 * liveness WORKERS=2 JOBS=1 MISHAPS=2
 *
 * defect lease_not_checked MISHAPS=0: a report is accepted with any lease
 * defect lease_checked_before_lock MISHAPS=0: a report checks the lease, waits for the row, and does not check the lease again
 * defect claim_not_first MISHAPS=0: a claim does not check whether another claim has taken the job since its snapshot
 * defect lease_from_counter MISHAPS=1: the lease is the number of the attempt, which repeats if a crash loses an asynchronous claim
 * defect rescue_not_rechecked MISHAPS=0: the rescue locks a job that had expired in its snapshot, and does not check again
 * defect losses_not_counted MISHAPS=0: a lost attempt does not count toward the maximum number of attempts
 * defect lease_not_recorded MISHAPS=0: a claim neither records its lease in shared memory nor adds the job to the rescue index
 * defect young_seen_too_early MISHAPS=0: the background worker also looks at leases whose claims are not visible yet
 * defect young_ended_early MISHAPS=1: the entry of a lease is deleted before the transaction that ends the lease is visible
 * defect no_search_after_crash MISHAPS=2: no process searches the table for running jobs after shared memory was lost
 * defect prepared_not_indexed MISHAPS=2: PREPARE TRANSACTION does not add the jobs that it has claimed to the rescue index
 */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef JOBS
#define JOBS 1
#endif
#ifndef MISHAPS
#define MISHAPS 2 /* rollbacks, crashes, prepared transactions, dead workers, and repeated reports in one run, all together */
#endif
#define ATTEMPTS 2 /* max_attempts */
#define BEATS 1    /* heartbeats in one run */

#define NO_WORKER 255
#define NO_LEASE 0
#define FREE 0      /* no transaction holds the row */
#define PREPARED 99 /* a prepared transaction holds the row */

mtype = { pending, running, completed, failed };
mtype = { none, claiming, live, ending }; /* an entry of shared memory; "claiming" and "ending": the transaction is open */

typedef Row {
    mtype status;
    byte lease;
    byte attempts;
    bool indexed; /* _rescue_indexed */
    bool expired; /* the deadline of the lease has passed */
    byte holder;  /* only for the assertions: the worker that made this claim */
};
Row row[JOBS];     /* the visible version */
Row written[JOBS]; /* the version that the transaction that holds the row has written */
byte locker[JOBS];

/* Shared memory. */
mtype young[JOBS];
byte young_lease[JOBS];
bool searched; /* DatabaseState::leases_found */

/* What a crash loses: the version before an asynchronous commit that is not on disk yet. */
Row lost_version[JOBS];
bool may_be_lost[JOBS];

bool restarted; /* the server has crashed since the background worker began its round */
#ifdef no_search_after_crash
bool crashed;
#endif
byte beats;
byte mishaps;
byte last_lease;
byte ends[JOBS];   /* how often an end of the job became visible */
byte claims[JOBS]; /* claims that count as an attempt */

#define OVER(j) (locker[j] == FREE && (row[j].status == completed || row[j].status == failed))
#if JOBS == 1
#define ALL_OVER OVER(0)
#else
#define ALL_OVER (OVER(0) && OVER(1))
#endif
#define MISHAP mishaps < MISHAPS -> mishaps++
#ifdef claim_not_first
#define CLAIMABLE(j) (locker[j] == FREE && row[j].status != completed && row[j].status != failed)
#else
#define CLAIMABLE(j) (locker[j] == FREE && row[j].status == pending)
#endif
#ifdef lease_not_checked
#define MY_LEASE (row[j].status == running)
#else
#define MY_LEASE (row[j].status == running && row[j].lease == lease) /* src/job/change_job.cpp:runs_under */
#endif
#ifdef young_seen_too_early
#define DUE(j) (young[j] != none)
#else
#define DUE(j) (young[j] == live || young[j] == ending) /* src/leases/young_leases.cpp:due_leases */
#endif
#define TO_INDEX (row[j].status == running && row[j].lease == lease && !row[j].indexed)
#define EXPIRED(j) (row[j].status == running && row[j].indexed && row[j].expired)

inline copy(to, from) {
    to.status = from.status; to.lease = from.lease; to.attempts = from.attempts;
    to.indexed = from.indexed; to.expired = from.expired; to.holder = from.holder
}

inline lock(j) { locker[j] = _pid + 1; copy(written[j], row[j]) }
/* Does the action if the condition is true. */
#define when(condition, action) if :: (condition) -> action :: else fi
#define HOLDS(j) (locker[j] == _pid + 1)

/* A running job is in shared memory or in the rescue index, or a search of the table will find it. */
inline check_found(j) {
    assert(row[j].status != running || row[j].indexed || !searched || (young[j] != none && young_lease[j] == row[j].lease))
}

/* The transaction becomes visible. An entry of shared memory contains the ids of transactions, so it changes at the same moment
 * (src/leases/young_leases.cpp:is_over). */
inline become_visible(j) {
    if
    :: written[j].status == completed || written[j].status == failed ->
        ends[j]++;
        assert(row[j].status == running && ends[j] == 1)
    :: written[j].status == running && written[j].lease != row[j].lease ->
        claims[j]++;
        assert(row[j].status == pending && claims[j] <= ATTEMPTS) /* otherwise, two workers hold a lease */
    :: else
    fi;
    copy(row[j], written[j]);
    copy(written[j], nothing);
    locker[j] = FREE;
    if
    :: young[j] == claiming -> young[j] = live
    :: young[j] == ending -> young[j] = none; young_lease[j] = NO_LEASE
    :: else
    fi;
    check_found(j)
}
/* A synchronous commit also puts everything before it on disk. */
inline flush() {
    k = 0;
    do
    :: k < JOBS -> may_be_lost[k] = false; copy(lost_version[k], nothing); k++
    :: else -> break
    od;
    k = 0
}
inline roll_back(j) {
    copy(written[j], nothing);
    locker[j] = FREE;
    if
    :: young[j] == claiming -> young[j] = none; young_lease[j] = NO_LEASE
    :: young[j] == ending -> young[j] = live
    :: else
    fi
}
/* The lease of the job ends with this transaction (src/leases/young_leases.cpp:end_lease). */
inline end_lease(j) {
#ifdef young_ended_early
    young[j] = none; young_lease[j] = NO_LEASE
#else
    when(young[j] == live, young[j] = ending)
#endif
}
Row nothing; /* never written */

/* src/core/life.cpp:follow_status: only a running job has a lease. */
inline leave_running(j, to) {
    written[j].status = to; written[j].lease = NO_LEASE; written[j].indexed = false; written[j].expired = false;
    written[j].holder = NO_WORKER;
    end_lease(j)
}
/* src/core/retry.cpp:after_failure, src/core/retry.cpp:after_loss */
inline retry_or_fail(j) {
    if
    :: row[j].attempts < ATTEMPTS -> leave_running(j, pending)
    :: else -> leave_running(j, failed)
    fi
}

proctype Worker(byte me) {
    byte j, k, lease;

rest:
    atomic { lease = NO_LEASE; j = 0 }
#ifdef claim_not_first
    row[0].status == pending;
#endif
end:
    atomic { /* src/claim/take_job.cpp:mark_claimed, with LockWaitSkip */
        if
        :: CLAIMABLE(0) -> j = 0
#if JOBS > 1
        :: CLAIMABLE(1) -> j = 1
#endif
        fi;
        lock(j);
#ifdef lease_from_counter
        lease = row[j].attempts + 1;
#else
        last_lease++;
        lease = last_lease; /* src/claim/take_job.cpp:new_lease: never the same number again */
#endif
        written[j].status = running; written[j].lease = lease; written[j].holder = me; written[j].expired = false;
        written[j].attempts++;
        if
#ifdef lease_not_recorded
        :: skip
#else
        :: searched -> young[j] = claiming; young_lease[j] = lease /* src/leases/young_leases.cpp:enter_lease */
        :: written[j].indexed = true /* no room in the table, or src/shmem/database_state.cpp:indexing_is_lazy is false */
#endif
        fi
    }
    atomic {
        if
        :: !HOLDS(j) -> goto rest /* the server crashed */
        :: HOLDS(j) -> become_visible(j); flush()
        :: HOLDS(j) && MISHAP; /* asynchronous, if jobq.async_claims is on: src/compat/async_commit.cpp:allow_async_commit */
            copy(lost_version[j], row[j]); may_be_lost[j] = true;
            become_visible(j)
        :: HOLDS(j) && MISHAP; roll_back(j); goto rest
        :: HOLDS(j) && MISHAP; /* PREPARE TRANSACTION: src/leases/rescue_index.cpp:index_own_leases */
#ifndef prepared_not_indexed
            when(young[j] == claiming, written[j].indexed = true; young[j] = none; young_lease[j] = NO_LEASE);
#endif
            flush();
            locker[j] = PREPARED
        fi
    }

working:
    do
    :: atomic { /* src/finish/held_jobs.cpp:heartbeat_jobs */
            beats < BEATS && locker[j] == FREE -> beats++;
            if
            :: row[j].status == running && row[j].lease == lease -> assert(row[j].holder == me); row[j].expired = false
            :: else -> goto rest /* the answer is "lost" */
            fi
        }
    :: atomic { MISHAP; goto rest } /* dies, and another worker takes its place */
    :: break
    od;

report: /* src/finish/held_jobs.h:change_while: a snapshot, the check of the lease, the lock, and again if the row has changed */
    if
    :: atomic { !MY_LEASE -> goto rest } /* the answer is "lost" */
    :: MY_LEASE
    fi;
    atomic {
        locker[j] == FREE -> /* src/table/table.cpp:update_directly waits for the transaction that holds the row */
        if
#ifdef lease_checked_before_lock
        :: row[j].status == running ->
#else
        :: MY_LEASE ->
#endif
            assert(row[j].holder == me);
            lock(j);
            if
            :: leave_running(j, completed) /* src/finish/held_jobs.cpp:complete_jobs */
            :: retry_or_fail(j)            /* src/finish/held_jobs.cpp:fail_jobs */
            fi
        :: else -> goto report
        fi
    }
    atomic {
        if
        :: HOLDS(j) -> become_visible(j); flush(); goto rest
        :: HOLDS(j) && MISHAP; become_visible(j); flush(); goto report /* the answer is lost, so the worker repeats the report */
        :: HOLDS(j) && MISHAP; roll_back(j); goto report
        :: HOLDS(j) && MISHAP; flush(); locker[j] = PREPARED; goto rest
        :: !HOLDS(j) -> goto report /* the server crashed, and the worker connects again */
        fi
    }
}

/* The background worker: src/duties/rescue.cpp:rescue_expired */
proctype Background() {
    byte j, k, lease;
    byte found[JOBS]; /* the leases that the search has found */

round:
    atomic { restarted = false; j = 0; lease = NO_LEASE }
end:
    atomic {
        if
        :: !searched -> /* src/leases/unindexed_search.cpp:find_unindexed_jobs: the snapshot */
#ifdef no_search_after_crash
            when(crashed, searched = true; goto round);
#endif
            do
            :: k < JOBS -> found[k] = (row[k].status == running && !row[k].indexed -> row[k].lease : NO_LEASE); k++
            :: else -> k = 0; break
            od;
            goto enter
        :: DUE(0) -> j = 0; lease = young_lease[j]; goto index
        :: EXPIRED(0) -> j = 0; goto rescue
#if JOBS > 1
        :: DUE(1) -> j = 1; lease = young_lease[j]; goto index
        :: EXPIRED(1) -> j = 1; goto rescue
#endif
        fi
    }

enter:
    atomic {
        do
        :: k < JOBS -> /* src/leases/young_leases.cpp:enter_found_lease */
            when(!restarted && found[k] != NO_LEASE && young[k] == none, young[k] = live; young_lease[k] = found[k]);
            found[k] = NO_LEASE; k++
        :: else -> k = 0; break
        od;
        searched = !restarted;
        goto round
    }

index: /* src/leases/rescue_index.cpp:index_young: a snapshot */
    atomic {
        if
        :: restarted -> goto round
        :: !restarted && TO_INDEX
        :: !restarted && !TO_INDEX -> /* src/leases/young_leases.cpp:drop_lease */
            when(young[j] != none && young_lease[j] == lease, young[j] = none; young_lease[j] = NO_LEASE);
            check_found(j);
            goto round
        fi
    }
    atomic { /* src/table/table.cpp:lock_row_or_skip */
        if
        :: !restarted && locker[j] == FREE && TO_INDEX -> lock(j); written[j].indexed = true; end_lease(j); goto commit
        :: else -> goto round
        fi
    }

rescue: /* the snapshot of src/duties/rescue.cpp:lock_expired has shown that the lease has expired */
    atomic {
        if
#ifdef rescue_not_rechecked
        :: locker[j] == FREE && row[j].status == running ->
#else
        :: locker[j] == FREE && EXPIRED(j) ->
#endif
            assert(row[j].expired);
            lock(j);
            retry_or_fail(j); /* src/duties/rescue.cpp:end_lost */
#ifdef losses_not_counted
            written[j].status = pending; written[j].attempts--
#endif
        :: else -> goto round
        fi
    }

commit:
    atomic {
        if
        :: HOLDS(j) -> become_visible(j); flush()
        :: HOLDS(j) && MISHAP; roll_back(j)
        :: !HOLDS(j)
        fi;
        goto round
    }
}

/* Time passes: the deadline of any lease may pass, whether or not its worker is alive. */
proctype Clock() {
end:
    do
    :: atomic { row[0].status == running && !row[0].expired -> row[0].expired = true }
#if JOBS > 1
    :: atomic { row[1].status == running && !row[1].expired -> row[1].expired = true }
#endif
    od
}

/* Another session ends prepared transactions. */
proctype Resolver() {
    byte j, k;
end:
    do
    :: atomic { locker[0] == PREPARED -> j = 0; if :: become_visible(j); flush() :: roll_back(j) fi }
#if JOBS > 1
    :: atomic { locker[1] == PREPARED -> j = 1; if :: become_visible(j); flush() :: roll_back(j) fi; j = 0 }
#endif
    od
}

/* The server crashes and starts again: open transactions vanish, shared memory is empty, and an asynchronous commit may be lost. */
proctype Crash() {
    byte j;
end:
    do
    :: atomic {
            MISHAP;
            restarted = true;
            searched = false;
#ifdef no_search_after_crash
            crashed = true;
#endif
            do
            :: j < JOBS ->
                if
                :: locker[j] != FREE && locker[j] != PREPARED -> locker[j] = FREE; copy(written[j], nothing)
                :: else
                fi;
                if
                :: may_be_lost[j] -> copy(row[j], lost_version[j]); claims[j]--
                :: true
                fi;
                may_be_lost[j] = false; copy(lost_version[j], nothing);
                young[j] = none; young_lease[j] = NO_LEASE;
                j++
            :: else -> j = 0; break
            od
        }
    od
}

init {
    byte i;
    atomic {
        do
        :: i < JOBS ->
            row[i].status = pending; row[i].holder = NO_WORKER; young[i] = none; i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < WORKERS -> run Worker(i); i++
        :: else -> break
        od;
        run Background(); run Clock(); run Resolver(); run Crash()
    }
    ALL_OVER /* otherwise, the end of the run is invalid */
}

/* Every job ends. */
ltl ended { <> ALL_OVER }
