#include "modules/reading/rules/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

double unit_wh(const char *unit)
{
    static const struct {
        const char *name;
        double wh;
    } units[] = {{"Wh", 1}, {"kWh", 1e3}, {"MWh", 1e6}, {"GWh", 1e9}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (!strcasecmp(unit, units[i].name))
            return units[i].wh;
    return 0;
}

char unit_type(const char *type)
{
    if (!strcasecmp(type, "History"))
        return 'H';
    return strcasecmp(type, "Delta") ? '\0' : 'D';
}

const char *unit_type_name(char type)
{
    return type == 'H' ? "History" : "Delta";
}

bool unit_decimal(const char *text, double *number)
{
    char *end;

    *number = strtod(text, &end);
    /* strtod() also accepts leading blanks, hexadecimal numbers and words such as "inf". */
    return end > text && !*end && !text[strspn(text, "0123456789+-.eE")] && isfinite(*number);
}
