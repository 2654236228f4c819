#include "modules/reading/rules/ceiling.h"

#include <math.h>

#define HOUR_MS 3600000.0L
#define HOURS_OF_YEAR 8760.0L
#define YEAR_MS (365.25L * 24 * HOUR_MS)
#define DECIMALS 1e9L
#define EXACT 1e-17L

/* Returns the number with up to nine decimals that rounds to this double, or else the double. */
static long double ceiling_decimal(double number)
{
    long double near = roundl(number * DECIMALS) / DECIMALS;

    return (double)near == number ? near : number;
}

double ceiling_wh(const struct ceiling_rule *rule, const struct ceiling_device *device,
                  int64_t start, int64_t end)
{
    long double hours = (long double)(end - start) / HOUR_MS;
    long double age = (long double)(end - device->commissioned) / YEAR_MS;
    long double left = age > 1 ? powl(1 - ceiling_decimal(rule->degradation), age - 1) : 1;
    long double wh = ceiling_decimal(device->capacity_kw) * 1000 * hours *
                     ceiling_decimal(device->yield) / HOURS_OF_YEAR * left *
                     ceiling_decimal(rule->margin);

    return (double)floorl(wh * (1 + EXACT));
}
