/* Kernel statistics of the process, with the names that Prometheus's own client libraries use. */
#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/text.h"
#include "core/observe/metrics.h"

void metrics_memory(struct metrics *metrics)
{
    FILE *file = fopen("/proc/self/statm", "re");
    char line[128];
    char *at = line;

    if (!file)
        return;
    if (fgets(line, sizeof line, file)) {
        strtoull(at, &at, 10);
        metric_number(metrics, (double)strtoull(at, NULL, 10) * (double)sysconf(_SC_PAGESIZE));
    }
    fclose(file);
}

void metrics_cpu(struct metrics *metrics)
{
    struct rusage used;

    if (!getrusage(RUSAGE_SELF, &used))
        metric_number(metrics, (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
}

void metrics_files(struct metrics *metrics)
{
    DIR *files = opendir("/proc/self/fd");
    double count = -3; /* ".", ".." and the descriptor of the directory */

    if (!files)
        return;
    while (readdir(files))
        count++;
    closedir(files);
    metric_number(metrics, count);
}

void metrics_files_most(struct metrics *metrics)
{
    struct rlimit limit;

    if (!getrlimit(RLIMIT_NOFILE, &limit))
        metric_number(metrics, (double)limit.rlim_cur);
}

void metrics_started(struct metrics *metrics)
{
    int64_t age_ms = clock_mono_ms() - metrics->engine->started_ms;

    metric_number(metrics, (double)(clock_wall_ms() - age_ms) / 1000);
}
