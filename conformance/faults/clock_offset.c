/* The clock of the wall as a test wants it: what the system says, and as many seconds more as the file CLOCK_OFFSET_FILE says.
 * Loaded into a broker by LD_PRELOAD. The monotonic clock is not touched: it cannot be set either. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*system_clock)(clockid_t, struct timespec *);
  if (!system_clock) system_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = system_clock(clock, now);
  const char *path = getenv("CLOCK_OFFSET_FILE");
  if (clock != CLOCK_REALTIME || result || !path) return result;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return result;
  char text[32] = {0};
  if (read(file, text, sizeof text - 1) > 0) now->tv_sec += atol(text);
  close(file);
  return result;
}
