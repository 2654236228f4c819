/*
 * steps: a module for the tests of migrations. Its third step uses an enum value that the second
 * one adds. PostgreSQL refuses that in one transaction unless the transaction also created the
 * type.
 */
#include <busbar/busbar.h>

static const char schema[] = "-- step 1: kinds\n"
                             "CREATE TYPE steps_kind AS ENUM ('a');\n"
                             "-- step 2: one more kind\n"
                             "ALTER TYPE steps_kind ADD VALUE 'b';\n"
                             "-- step 3: a table that begins with it\n"
                             "CREATE TABLE steps_thing (kind steps_kind DEFAULT 'b');\n";

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("steps", "1.0.0"),
    .help = "Steps of a schema that cannot all be applied in one transaction.",
    .schema = schema,
};
