#include "fault/group.h"

#include <sys/stat.h>

#include "harness.h"

enum { EMPTIED_MS = 5000 };

static bool is_memory(const struct group *group)
{
    return strstr(group->path, "memory") != NULL;
}

static char *line_with(const char *text_of_lines, const char *words)
{
    const char *at = strstr(text_of_lines, words);

    while (at && at > text_of_lines && at[-1] != '\n')
        at--;
    return at ? text("%.*s", (int)strcspn(at, "\n"), at) : NULL;
}

/* Returns where a hierarchy is mounted. For version 1, the mount options contain the controller. */
static char *mounted(const char *kind, const char *option)
{
    char *lines = file_text("/proc/mounts"), *rest = NULL;
    char place[256], type[32], options[256];

    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "%*s %255s %31s %255s", place, type, options) == 3 &&
            !strcmp(type, kind) && (!option || strstr(options, option)))
            return text("%s", place);
    }
    return NULL;
}

/* Returns this process's group from a line of /proc/self/cgroup. */
static const char *own(const char *words)
{
    const char *line = line_with(file_text("/proc/self/cgroup"), words);
    const char *path = line ? strrchr(line, ':') : NULL;

    return path && strcmp(path + 1, "/") != 0 ? path + 1 : "";
}

/* In version 2, a group must delegate the controller to the groups below it. */
static char *parent_of(const char *controller, bool *first)
{
    char *place = mounted("cgroup", text(",%s", controller));

    *first = place != NULL;
    if (place)
        return text("%s%s", place, own(text(":%s:", controller)));
    place = mounted("cgroup2", NULL);
    ck_assert_msg(place != NULL, "this fault needs control groups");
    place = text("%s%s", place, own("0::"));
    FILE *file = fopen(text("%s/cgroup.subtree_control", place), "we");

    if (file) {
        fprintf(file, "+%s", controller);
        fclose(file);
    }
    return place;
}

struct group *group_make(const char *controller)
{
    struct group *group = kept(calloc(1, sizeof *group));
    const char *parent = parent_of(controller, &group->first);

    group->path = text("%s/busbar-%s-%d", parent, controller, (int)getpid());
    if (mkdir(group->path, 0755)) {
        test_skipped(text("the control group %s cannot be made", group->path));
        return NULL;
    }
    group->wrapper =
        word_list("sh", "-c", text("echo $$ >%s/cgroup.procs && exec \"$@\"", group->path), "sh");
    return group;
}

void group_limit(const struct group *group, long amount)
{
    const char *name = !is_memory(group) ? "pids.max"
                       : group->first    ? "memory.limit_in_bytes"
                                         : "memory.max";
    bool none = amount < 0;
    FILE *file = fopen(text("%s/%s", group->path, name), "we");

    ck_assert_msg(file != NULL, "%s has no %s", group->path, name);
    fprintf(file, "%s",
            none ? is_memory(group) && group->first ? "-1" : "max" : text("%ld", amount));
    ck_assert_msg(!fclose(file), "%s of %s cannot be set to %ld", name, group->path, amount);
}

long group_used(const struct group *group)
{
    const char *name = !is_memory(group) ? "pids.current"
                       : group->first    ? "memory.usage_in_bytes"
                                         : "memory.current";

    return strtol(file_text(text("%s/%s", group->path, name)), NULL, 10);
}

long group_kills(const struct group *group)
{
    const char *name = group->first ? "memory.oom_control" : "memory.events";
    const char *line = line_with(file_text(text("%s/%s", group->path, name)), "oom_kill ");

    ck_assert_ptr_nonnull(line);
    return strtol(line + strlen("oom_kill "), NULL, 10);
}

void group_end(const struct group *group)
{
    WAIT_UNTIL(!rmdir(group->path), EMPTIED_MS);
}
