/* Preloaded: every sync of the process fails with EIO while the file that FAIL_SYNC names is there. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int sync_by(long number, int fd) {
    const char *trigger = getenv("FAIL_SYNC");
    if (trigger && access(trigger, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(number, fd);
}

int fdatasync(int fd) { return sync_by(SYS_fdatasync, fd); }

int fsync(int fd) { return sync_by(SYS_fsync, fd); }
