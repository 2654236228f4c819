/*
 * The plausible ceiling of a reading: the energy that the device could have generated in its
 * period, with a margin. No side effects; any thread.
 *
 *   ceiling in Wh = capacity × 1000 × hours × yield / 8760
 *                   × (1 − degradation)^(max(age, 1) − 1) × margin
 *
 * - capacity × 1000 is the power in W; multiplied by hours it is the energy at full power, in Wh;
 * - yield is the energy in kWh that the device generates in a year for each kW of capacity. Divided
 *   by the hours of a year (365 × 24 = 8,760), it is the average share of the full power;
 * - solar modules lose `degradation` of their power each year after the first (0.005; warranties
 *   promise 0.4 to 0.7 %). The age is counted in years of 365.25 days from the commissioning to the
 *   reading's end;
 * - margin (1.2) leaves room for a good year, and for a yield that was set for a whole region.
 *
 * The ceiling is based on the annual average for periods of any length, although an hour at noon
 * may have four times the average energy.
 *
 * Example: 10 kW, 24 h, yield 2000, first year: 10 × 1000 × 24 × 2000 / 8760 × 1.2 = 65,753.42, so
 * 65,753 Wh pass and 65,754 Wh do not.
 */
#ifndef READING_CEILING_H
#define READING_CEILING_H

#include <stdint.h>

struct ceiling_rule {
    double degradation; /* reading.degradation */
    double margin;      /* reading.margin */
};

struct ceiling_device {
    double capacity_kw;
    double yield;         /* kWh/kW per year */
    int64_t commissioned; /* ms since 1970 */
};

/*
 * Returns the ceiling for a period, given in ms since 1970, rounded down to whole Wh. The numbers
 * count as the decimals that were written (up to nine), not as doubles. A ceiling that is less than
 * a whole number by at most one part in 10^17 is rounded up to this number.
 */
double ceiling_wh(const struct ceiling_rule *rule, const struct ceiling_device *device,
                  int64_t start, int64_t end);

#endif
