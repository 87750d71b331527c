/* The line of one group: which transaction makes the next job the head. docs/internals/models.md explains this model.
 *
 * Each job is enqueued by its own producer, in any order. A worker runs the head. The transaction that ends the head makes the next
 * job the head, or leaves the group to the promoter. The second promoter is a session that calls jobq_tick().
 *
 * Each atomic block is one step that no other session can observe half done: a statement's snapshot, a lock, a change of shared
 * memory, or the moment at which a transaction becomes visible. The comments name the function that makes the step.
 *
 * scope JOBS=3 MISHAPS=0 TICKS=0
 * scope JOBS=2 MISHAPS=0 TICKS=1
 * scope JOBS=2 MISHAPS=1 TICKS=0
 * liveness JOBS=2 MISHAPS=0 TICKS=0
 *
 * defect new_not_published JOBS=2 MISHAPS=0 TICKS=0: a producer does not publish the group of its new job
 * defect published_before_visible JOBS=2 MISHAPS=0 TICKS=0: a producer publishes the group before its commit is visible
 * defect empty_line_not_published JOBS=2 MISHAPS=0 TICKS=0: a transaction does not publish a group whose line looks empty
 * defect looked_early JOBS=2 MISHAPS=0 TICKS=0: the promoter takes its snapshot before it takes the entries from the list
 * defect promoter_not_alone JOBS=2 MISHAPS=0 TICKS=1: the promoter does not acquire its lock
 * defect snapshot_before_lock JOBS=2 MISHAPS=0 TICKS=1: the promoter takes its snapshot before it acquires its lock
 * defect lock_released_early JOBS=2 MISHAPS=0 TICKS=1: the promoter releases its lock before its commit is visible
 * defect succession_unnoticed JOBS=3 MISHAPS=0 TICKS=0: the promoter trusts what it remembers, although a commit has made a head
 * defect succession_counted_late JOBS=3 MISHAPS=0 TICKS=0: a new head is counted only after the commit is visible
 * defect head_not_checked JOBS=2 MISHAPS=0 TICKS=0: the promoter does not check whether the group has a head
 * defect savepoint_ignored JOBS=2 MISHAPS=1 TICKS=0: a transaction makes the next head, although the old head was restored
 * defect prepared_not_noticed JOBS=2 MISHAPS=1 TICKS=0: no session notices that the prepared end of a head was committed
 * defect taken_entries_lost JOBS=2 MISHAPS=1 TICKS=0: after its transaction was rolled back, the promoter does not search the table
 * defect no_search_after_crash JOBS=2 MISHAPS=1 TICKS=0: after shared memory was lost, the promoter does not search the table
 * defect line_not_told JOBS=2 MISHAPS=0 TICKS=0: a job that enters the line does not move the recorded beginning of the line
 * defect looks_not_announced JOBS=2 MISHAPS=0 TICKS=0: jobs that enter the line do not limit what a search records
 */

#ifndef JOBS
#define JOBS 3
#endif
#ifndef MISHAPS
#define MISHAPS 0 /* rollbacks, savepoints, crashes, and prepared transactions in one run, all together */
#endif
#ifndef TICKS
#define TICKS 1
#endif

#define NO_JOB 9 /* also an id that is higher than all ids */
#define FREE 0
#define PREPARED 99

mtype = { absent, waiting, head, over };

mtype status[JOBS];
mtype written[JOBS];
byte locker[JOBS];

/* Shared memory. */
bool listed, list_search; /* src/groups/unblocked_list.cpp */
byte last_promoter;       /* src/groups/unblocked_list.cpp:begin_promoting */
byte going_on, ended;     /* the counter of src/groups/successors.cpp:begin_succession */
byte line_start;          /* src/groups/line_start.cpp; 0: unknown or the first job */
byte looks, published;

byte promoter_lock;
byte crashes;
byte mishaps;
byte tick_count;

#define MISHAP mishaps < MISHAPS -> mishaps++
/* Does the action if the condition is true. */
#define when(condition, action) if :: (condition) -> action :: else fi
#define HOLDS(j) (locker[j] == _pid + 1)
#if JOBS == 3
#define ALL_OVER (status[0] == over && status[1] == over && status[2] == over)
#define ONE_HEAD assert((status[0] == head) + (status[1] == head) + (status[2] == head) <= 1)
#define FIRST_FROM(start) (start <= 0 && seen[0] == waiting -> 0 : \
    (start <= 1 && seen[1] == waiting -> 1 : (start <= 2 && seen[2] == waiting -> 2 : NO_JOB)))
#define SEEN_HEAD (seen[0] == head -> 0 : (seen[1] == head -> 1 : (seen[2] == head -> 2 : NO_JOB)))
#else
#define ALL_OVER (status[0] == over && status[1] == over)
#define ONE_HEAD assert((status[0] == head) + (status[1] == head) <= 1)
#define FIRST_FROM(start) (start <= 0 && seen[0] == waiting -> 0 : (start <= 1 && seen[1] == waiting -> 1 : NO_JOB))
#define SEEN_HEAD (seen[0] == head -> 0 : (seen[1] == head -> 1 : NO_JOB))
#endif

inline lock(j) { locker[j] = _pid + 1; written[j] = status[j] }
inline unlock(j) { locker[j] = FREE; written[j] = 0 }
inline become_visible(j) { status[j] = written[j]; unlock(j) }

inline take_snapshot() {
    seen[0] = status[0]; seen[1] = status[1];
#if JOBS == 3
    seen[2] = status[2]
#endif
}
inline forget_snapshot() {
    seen[0] = 0; seen[1] = 0;
#if JOBS == 3
    seen[2] = 0
#endif
}

/* src/groups/line_start.cpp:begin_line_look, src/groups/line_start.cpp:keep, src/groups/line_start.cpp:drop_line_starts */
inline begin_look() { if :: looks == 0 -> published = NO_JOB :: else fi; looks++ }
inline keep_look(first, whole) {
    if
    :: first == NO_JOB
    :: first != NO_JOB ->
#ifndef looks_not_announced
        when(published < first, first = published);
#endif
        when(whole || line_start <= first, line_start = first)
    fi;
    end_look()
}
inline end_look() { looks--; if :: looks == 0 -> published = 0 :: else fi }

/* Enqueues one job. A new job of a group always waits: src/core/life.cpp:enqueued */
proctype Producer(byte j) {
    byte at_crash;

enqueue:
#ifdef published_before_visible
    listed = true;
#endif
    atomic { /* no other session sees the row before it is visible */
        lock(j); written[j] = waiting;
        if
        :: HOLDS(j) -> become_visible(j); at_crash = crashes
        :: HOLDS(j) && MISHAP; unlock(j); goto enqueue
        fi
    }
#ifndef line_not_told
    atomic { /* src/groups/line_start.cpp:publish_line_entries */
        if
        :: at_crash == crashes ->
            when(j < line_start, line_start = j);
            when(looks > 0 && j < published, published = j)
        :: else
        fi
    }
#endif
#if !defined(new_not_published) && !defined(published_before_visible)
    atomic { /* src/groups/unblocked_list.cpp:publish_unblocked */
        when(at_crash == crashes, listed = true);
        at_crash = 0
    }
#endif
}

#ifdef savepoint_ignored
#define HEADS_LEFT false
#else
#define HEADS_LEFT undone /* src/log/transaction_log.cpp:leave_next_heads */
#endif
/* Claims and ends the head. The claim and the run of the job are one step here. */
proctype Ender(byte j) {
    byte at_crash, next, first;
    mtype seen[JOBS];
    bool logged, undone, whole, looking;

end:
    atomic {
        locker[j] == FREE && status[j] == head ->
        lock(j); written[j] = over; at_crash = crashes; next = NO_JOB; first = NO_JOB;
        logged = true /* src/job/change_job.cpp:log_change */
    }
#if MISHAPS > 0
    if
    :: atomic { HOLDS(j) && MISHAP; unlock(j); /* a savepoint is rolled back: src/log/transaction_log.cpp:roll_back_log */
            undone = true
        }
    :: true
    fi;
    if
    :: atomic { HOLDS(j) && MISHAP; locker[j] = PREPARED; goto done }
    :: atomic { HEADS_LEFT -> goto commit }
    :: !HEADS_LEFT
    fi;
#endif

    /* src/groups/successors.cpp:promote_successors, just before the commit */
    atomic {
        when(at_crash != crashes, goto again);
        begin_look(); looking = true
    }
    atomic { take_snapshot() }
    atomic { /* src/groups/successors.cpp:promote_next */
        when(at_crash != crashes, goto again);
        next = FIRST_FROM(line_start);
        first = next;
        whole = line_start == 0;
        forget_snapshot();
        when(next == NO_JOB, goto commit)
    }
#ifndef succession_counted_late
    atomic {
        if
        :: at_crash != crashes -> goto again
        :: else -> going_on++ /* src/groups/successors.cpp:begin_succession */
        fi
    }
#endif
    atomic { /* src/groups/line.cpp:make_head */
        if
        :: at_crash != crashes -> goto again
        :: at_crash == crashes && locker[next] == FREE && status[next] == waiting ->
            lock(next); written[next] = head;
            logged = false /* src/log/transaction_log.cpp:unlog_free_group */
        :: else ->
#ifndef succession_counted_late
            going_on--; ended++;
#endif
            next = NO_JOB
        fi
    }

commit:
    atomic {
        if
        :: at_crash != crashes -> goto again
        :: at_crash == crashes ->
            when(HOLDS(j), become_visible(j));
            when(next != NO_JOB, become_visible(next));
            ONE_HEAD;
            when(next == NO_JOB, goto keep)
        :: at_crash == crashes && MISHAP;
            when(HOLDS(j), unlock(j));
            if
            :: next != NO_JOB ->
                unlock(next);
                going_on--; ended++
            :: else
            fi;
            when(looking, end_look());
            goto again
        fi
    }
    atomic { /* src/groups/successors.cpp:end_successions */
        if
        :: at_crash == crashes && next != NO_JOB ->
#ifndef succession_counted_late
            going_on--;
#endif
            ended++
        :: else
        fi
    }
keep:
    atomic { /* src/groups/line_start.cpp:keep_line_starts */
        if
        :: at_crash == crashes && looking -> keep_look(first, whole)
        :: else
        fi;
#ifdef empty_line_not_published
        logged = false;
#endif
        if
        :: !logged && undone -> goto again
        :: !logged && !undone -> goto done
        :: logged
        fi
    }
    atomic { /* src/groups/unblocked_list.cpp:publish_unblocked */
        when(at_crash == crashes, listed = true);
        if
        :: undone -> goto again
        :: else -> goto done
        fi
    }

again:
    atomic {
        forget_snapshot();
        at_crash = 0; next = 0; first = 0; logged = false; undone = false; whole = false; looking = false;
        goto end
    }
done:
    atomic { at_crash = 0; next = 0; first = 0; logged = false; undone = false; whole = false; looking = false }
}

/* src/groups/unblock.cpp:unblock_jobs, in the background worker or in jobq_tick() */
proctype Promoter(bool tick) {
    byte at_crash, next, first, mark_ended, mark_going_on, seen_head;
    mtype seen[JOBS];
    bool believes, whole, again, search;
    bool remembers; /* src/groups/groups.cpp:remember */
    byte known_head, known_ended, known_going_on;

begin:
end:
    atomic { /* src/groups/unblock.cpp:try_lock */
#ifdef promoter_not_alone
        (tick && tick_count < TICKS) || (!tick && (listed || list_search || again || search)) ->
#else
        promoter_lock == FREE && ((tick && tick_count < TICKS) || (!tick && (listed || list_search || again || search))) ->
        promoter_lock = _pid + 1;
#endif
        at_crash = crashes; next = NO_JOB; first = NO_JOB;
        when(tick, tick_count++);
        when(last_promoter != _pid + 1, remembers = false);
        last_promoter = _pid + 1
#ifdef snapshot_before_lock
        ; promoter_lock = FREE
#endif
    }
#if defined(looked_early) || defined(snapshot_before_lock)
    atomic { take_snapshot() }
#endif
#ifdef snapshot_before_lock
    atomic { promoter_lock == FREE -> promoter_lock = _pid + 1 }
#endif
    atomic { /* src/groups/unblocked_list.cpp:take_unblocked */
        when(at_crash != crashes, goto abandon);
        /* src/groups/groups.cpp:look_at_groups or src/groups/groups.cpp:search_groups */
        believes = !tick && !list_search && !search;
        when(!tick, listed = false; list_search = false; search = false; again = false);
        when(!believes, remembers = false) /* src/groups/groups.cpp:forget_groups */
    }
    atomic { /* src/groups/groups.cpp:promote_groups */
        when(at_crash != crashes, goto abandon);
        mark_ended = ended; mark_going_on = going_on; /* src/groups/successors.cpp:succession_mark */
        begin_look()
    }
#if !defined(looked_early) && !defined(snapshot_before_lock)
    atomic { take_snapshot() }
#endif
    atomic { /* src/groups/groups.cpp:promote_group */
        when(at_crash != crashes, goto abandon);
        seen_head = SEEN_HEAD;
        if
#ifdef succession_unnoticed
        :: believes && remembers ->
#else
        /* src/groups/groups.cpp:recall */
        :: believes && remembers && known_ended == ended && known_going_on == going_on && going_on == 0 ->
#endif
            when(seen[known_head] == head, end_look(); forget_snapshot(); goto free)
        :: else ->
#ifdef head_not_checked
            skip
#else
            if
            :: seen_head != NO_JOB ->
                remembers = true; known_head = seen_head; known_ended = mark_ended; known_going_on = mark_going_on;
                end_look(); forget_snapshot();
                goto free
            :: else
            fi
#endif
        fi;
        whole = !believes || line_start == 0;
        next = (believes -> FIRST_FROM(line_start) : FIRST_FROM(0));
        first = next;
        forget_snapshot();
        when(next == NO_JOB, end_look(); goto free)
    }
    atomic { /* src/groups/line.cpp:make_head */
        if
        :: at_crash != crashes -> goto abandon
        :: at_crash == crashes && locker[next] == FREE && status[next] == waiting ->
            lock(next); written[next] = head;
            remembers = true; known_head = next; known_ended = mark_ended; known_going_on = mark_going_on
        :: else ->
            next = NO_JOB;
            again = !tick /* src/groups/unblock.cpp:look_again */
        fi
    }
#ifdef lock_released_early
    promoter_lock = FREE;
#endif
    atomic {
        if
        :: at_crash != crashes -> goto abandon
        :: at_crash == crashes ->
            when(next != NO_JOB, become_visible(next));
            ONE_HEAD
        :: at_crash == crashes && MISHAP; /* src/groups/unblock.cpp:undo_unblocking */
            when(next != NO_JOB, unlock(next));
            end_look();
            remembers = false;
#ifndef taken_entries_lost
            search = !tick;
            list_search = list_search || tick;
#endif
            goto free
        fi
    }
    atomic {
        if
        :: at_crash == crashes -> keep_look(first, whole)
        :: else -> goto abandon
        fi
    }
free: /* the server releases the locks after src/groups/unblocked_list.cpp:publish_unblocked */
    atomic {
        if
        :: at_crash == crashes ->
            when(promoter_lock == _pid + 1, promoter_lock = FREE)
        :: else
        fi;
abandon:
        forget_snapshot();
        when(at_crash != crashes, again = false; search = false; remembers = false);
        when(!remembers, known_head = 0; known_ended = 0; known_going_on = 0);
        at_crash = 0; next = 0; first = 0; mark_ended = 0; mark_going_on = 0; seen_head = 0; believes = false; whole = false;
        goto begin
    }
}

/* Another session ends a prepared transaction: src/commit/prepared.cpp:settle_prepared_before_commit */
inline settle_prepared(j) {
    if
    :: become_visible(j); ONE_HEAD
    :: unlock(j); run Ender(j)
    fi;
#ifndef prepared_not_noticed
    list_search = true; line_start = 0 /* src/commit/at_commit.cpp:publish_prepared */
#endif
}
proctype Resolver() {
end:
    do
    :: atomic { locker[0] == PREPARED -> settle_prepared(0) }
    :: atomic { locker[1] == PREPARED -> settle_prepared(1) }
#if JOBS == 3
    :: atomic { locker[2] == PREPARED -> settle_prepared(2) }
#endif
    od
}

/* The server crashes and starts again. */
proctype Crash() {
    byte j;
end:
    do
    :: atomic {
            MISHAP;
            crashes++;
            do
            :: j < JOBS ->
                when(locker[j] != FREE && locker[j] != PREPARED, unlock(j));
                j++
            :: else -> j = 0; break
            od;
            promoter_lock = FREE; last_promoter = 0; listed = false; going_on = 0; ended = 0;
            line_start = 0; looks = 0; published = 0;
#ifdef no_search_after_crash
            list_search = false
#else
            list_search = true /* src/groups/unblocked_list.cpp:start_list */
#endif
        }
    od
}

init {
    byte j;
    atomic {
#if JOBS == 3
        /* One of the three jobs is already the head. */
        if
        :: status[0] = head
        :: status[1] = head
        :: status[2] = head
        fi;
#endif
        do
        :: j < JOBS ->
            if
            :: status[j] == head
            :: else -> status[j] = absent; run Producer(j)
            fi;
            run Ender(j);
            j++
        :: else -> j = 0; break
        od;
        run Promoter(false); run Promoter(true); run Resolver(); run Crash()
    }
    ALL_OVER /* otherwise, the end of the run is invalid */
}

/* Every job of the group runs. */
ltl ended_all { <> ALL_OVER }
