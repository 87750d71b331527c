/*
 * A wall clock that a test moves, for a server and all its processes. It is loaded with LD_PRELOAD, and JOBQ_TEST_CLOCK names a file
 * of eight bytes: the microseconds by which the clock is ahead. The file is mapped, so that all processes see a step at once. The
 * monotonic clock does not change.
 *
 * libfaketime does not work here. The postmaster of PostgreSQL 15 starts background workers in a signal handler, and these have the
 * real clock, because the handler has interrupted a wait in which libfaketime does not fake the time.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

__attribute__((constructor)) static void map_clock(void) {
    const char *path = getenv("JOBQ_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) abort();
    ahead = mapped;
    close(file);
}

int clock_gettime(clockid_t which, struct timespec *now) {
    long status = syscall(SYS_clock_gettime, which, now);
    if (status == 0 && ahead && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += *ahead / 1000000;
        now->tv_nsec += *ahead % 1000000 * 1000;
        if (now->tv_nsec < 0) now->tv_nsec += 1000000000, now->tv_sec--;
        if (now->tv_nsec >= 1000000000) now->tv_nsec -= 1000000000, now->tv_sec++;
    }
    return (int)status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
