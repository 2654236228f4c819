/* Warns of values that are valid but so unlikely that the sender should check them. */
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

void device_find_unlikely(const char *const text[DEVICE_FIELDS],
                          void (*warn)(void *arg, enum device_field field, const char *warning),
                          void *arg)
{
    const char *capacity = text[DEVICE_CAPACITY];
    const char *fuel = text[DEVICE_FUEL_CODE];
    const char *type = text[DEVICE_TYPE_CODE];

    if (capacity && strtod(capacity, NULL) > LARGE_KW)
        warn(arg, DEVICE_CAPACITY, "is in kW, and this is much; were watts sent?");
    if (fuel && !fuel_usual(fuel))
        warn(arg, DEVICE_FUEL_CODE, "is not ES and three digits");
    if (type && !type_usual(type))
        warn(arg, DEVICE_TYPE_CODE, "is not TC and three digits, nor T0 and four or five");
}

static void warn_caller(void *arg, enum device_field field, const char *warning)
{
    bb_warn(arg, "%s: %s", device_field_name(field), warning);
}

void device_warn(struct bb_request *rq, const struct device_values *values)
{
    device_find_unlikely(values->text, warn_caller, rq);
}
