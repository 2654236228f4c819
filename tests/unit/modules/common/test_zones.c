/* Time zones, from directories that are deleted when a zone is requested. */
#include <sys/stat.h>

#include "modules/common/zones.h"
#include "suite.h"
#include "support/process.h"

static const char *const directories[] = {"Europe", "America", "America/Indiana", "posix", "right"};
static const char *const zones[] = {
    "Europe/Berlin", "America/Indiana/Knox", "UTC",       "posix/UTC",
    "right/UTC",     "posixrules",           "localtime", "Factory"};

static const char *path(const char *root, const char *name)
{
    static char made[256];

    snprintf(made, sizeof made, "%s/%s", root, name);
    return made;
}

static void make_zones(const char *root)
{
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
        ck_assert_int_eq(mkdir(path(root, directories[i]), 0700), 0);
    for (size_t i = 0; i < sizeof zones / sizeof *zones; i++)
        ck_assert_int_eq(symlink(ZONE_FILES "/UTC", path(root, zones[i])), 0);
    file_write(path(root, "Europe/List"), "# of zones\n");
}

static void remove_zones(const char *root)
{
    ck_assert_int_eq(unlink(path(root, "Europe/List")), 0);
    for (size_t i = 0; i < sizeof zones / sizeof *zones; i++)
        ck_assert_int_eq(unlink(path(root, zones[i])), 0);
    for (size_t i = sizeof directories / sizeof *directories; i > 0; i--)
        ck_assert_int_eq(rmdir(path(root, directories[i - 1])), 0);
    ck_assert_int_eq(rmdir(root), 0);
}

TEST(time_zones_are_looked_up_in_memory)
{
    char root[] = "/tmp/busbar-zones-XXXXXX";

    ck_assert_ptr_nonnull(mkdtemp(root));
    make_zones(root);
    void *known = NULL;

    ck_assert_int_eq(zones_read(root, &known), 0);
    remove_zones(root);
    for (size_t i = 0; i < 3; i++)
        ck_assert_msg(zones_find(&known, zones[i]), "%s", zones[i]);
    EACH_TEXT (other, "posix/UTC", "right/UTC", "posixrules", "localtime", "Factory", "Europe",
               "Europe/", "Europe/List", "Europe/Rome", "", "/", "../UTC")
        ck_assert_msg(!zones_find(&known, other), "%s", other);
    zones_free(known);
}

TEST(no_time_zone_is_known_without_zone_data)
{
    void *known = NULL;

    ck_assert_int_eq(zones_read("/nonexistent", &known), 0);
    ck_assert_ptr_null(known);
}

SUITE(zones)
