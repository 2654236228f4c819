#include "ceiling.h"

#include <math.h>

#define HOUR_MS 3600000.0L
#define HOURS_OF_YEAR 8760.0L
#define YEAR_MS (365.25L * 24 * HOUR_MS)
#define EXACT 1e-12L

double ceiling_wh(const struct ceiling_rule *rule, const struct ceiling_device *device,
                  int64_t start, int64_t end)
{
    long double hours = (long double)(end - start) / HOUR_MS;
    long double age = (long double)(end - device->commissioned) / YEAR_MS;
    long double left = powl(1.0L - rule->degradation, fmaxl(age, 1.0L) - 1.0L);
    long double wh =
        device->capacity_kw * 1000.0L * hours * device->yield / HOURS_OF_YEAR * left * rule->margin;

    return (double)floorl(wh * (1.0L + EXACT));
}
