/*
 * The plausible ceiling of a reading: what the device could have generated in its period, with a
 * margin. Pure; any thread.
 *
 *     ceiling = capacity × 1000 × hours × yield / 8760 × (1 − degradation)^(max(age, 1) − 1) ×
 * margin
 *
 * in Wh, where
 *
 * - capacity × 1000 is the power in W, × hours the energy at full power, in Wh;
 * - yield / 8760 is the share of a year's hours (365 × 24 = 8,760) at full power that gives the
 *   device's annual yield, in kWh a year for each kW;
 * - modules lose `degradation` of their power each year (0.005: warranties speak of 0.4 to 0.7 %),
 *   from the end of the first year on. The age, in years of 365.25 days, is counted from the
 *   commissioning to the reading's end;
 * - margin (1.2) leaves room for a good year, and for a yield that was set for a region.
 *
 * The line is drawn by the year's average, for periods of any length: an hour at noon may have four
 * times the average one.
 *
 * 10 kW, 24 h, yield 2000, first year: 10 × 1000 × 24 × 2000 / 8760 × 1.2 = 65,753.42, so that
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
    double yield;         /* kWh/kW a year */
    int64_t commissioned; /* ms since 1970 */
};

/*
 * The largest whole number of Wh that passes, for a period in ms since 1970. What counts are
 * the numbers as they were written, with up to nine decimals; a result within a part in 10^17 of a
 * whole number is that number.
 */
double ceiling_wh(const struct ceiling_rule *rule, const struct ceiling_device *device,
                  int64_t start, int64_t end);

#endif
