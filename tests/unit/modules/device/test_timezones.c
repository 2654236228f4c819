/* Names of time zones, from directories that are deleted when a zone is requested. */
#include <sys/stat.h>

#include "modules/device/device.h"
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
        file_write(path(root, zones[i]), "TZif2");
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
    json_t *known = timezones_read(root);

    remove_zones(root);
    ck_assert_ptr_nonnull(known);
    for (size_t i = 0; i < 3; i++)
        ck_assert_msg(json_object_get(known, zones[i]), "%s", zones[i]);
    EACH_TEXT (other, "posix/UTC", "right/UTC", "posixrules", "localtime", "Factory", "Europe",
               "Europe/", "Europe/List", "Europe/Rome", "", "/", "../UTC")
        ck_assert_msg(!json_object_get(known, other), "%s", other);
    json_decref(known);
}

TEST(no_time_zone_is_known_without_zone_data)
{
    json_t *known = timezones_read("/nonexistent");

    ck_assert_ptr_nonnull(known);
    ck_assert_uint_eq(json_object_size(known), 0);
    json_decref(known);
}

SUITE(timezones)
