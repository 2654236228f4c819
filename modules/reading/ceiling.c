#include "ceiling.h"

#include <math.h>

#define HOUR_MS 3600000.0
#define HOURS_OF_YEAR 8760.0
#define YEAR_MS (365.25 * 24 * HOUR_MS)
#define EXACT 1e-12

double ceiling_wh(const struct ceiling_rule *rule, const struct ceiling_device *device,
                  int64_t start, int64_t end)
{
    double hours = (double)(end - start) / HOUR_MS;
    double age = (double)(end - device->commissioned) / YEAR_MS;
    double left = age > 1 ? pow(1 - rule->degradation, age - 1) : 1;
    double wh =
        device->capacity_kw * 1000 * hours * device->yield / HOURS_OF_YEAR * left * rule->margin;

    return floor(wh * (1 + EXACT));
}
