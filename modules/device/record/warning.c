/* What is valid, and yet so unlikely that the sender should look again. */
#include <stdlib.h>
#include <string.h>

#include "modules/device/record/device.h"

#define LARGE_KW 5000

static size_t digits(const char *text)
{
    return strspn(text, "0123456789");
}

static bool fuel_usual(const char *code)
{
    return !strncmp(code, "ES", 2) && strlen(code) == 5 && digits(code + 2) == 3;
}

static bool type_usual(const char *code)
{
    size_t length = strlen(code);

    if (!strncmp(code, "TC", 2))
        return length == 5 && digits(code + 2) == 3;
    return !strncmp(code, "T0", 2) && (length == 6 || length == 7) &&
           digits(code + 2) == length - 2;
}

void device_warn(struct bb_request *rq, const struct device_values *values)
{
    const char *capacity = values->text[DEVICE_CAPACITY];
    const char *fuel = values->text[DEVICE_FUEL_CODE];
    const char *type = values->text[DEVICE_TYPE_CODE];

    if (capacity && strtod(capacity, NULL) > LARGE_KW)
        bb_warn(rq, "capacity: is in kW, and this is much; were watts sent?");
    if (fuel && !fuel_usual(fuel))
        bb_warn(rq, "fuelCode: is not ES and three digits");
    if (type && !type_usual(type))
        bb_warn(rq, "deviceTypeCode: is not TC and three digits, nor T0 and four or five");
}
